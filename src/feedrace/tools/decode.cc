// SPDX-License-Identifier: Apache-2.0
// feedrace decode FILE --out X.npy|X.png: one picture as Feedrace sees it.

#include <array>
#include <charconv>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/decode/image_decoder.h"
#include "feedrace/formats/output_check.h"
#include "feedrace/pipeline/option_names.h"
#include "feedrace/tools/array_file.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/load_options.h"
#include "feedrace/tools/whole_file.h"

namespace feedrace::tools {
namespace {

struct Options {
  std::string file;
  std::string out;
  std::string region;
  std::string orientation = "keep";
  std::string jpeg_engine = "feedrace";
  std::uint64_t max_pixels = decode::DecodeLimits::kDefaultMaxPixels;
};

/// "x,y,w,h" of whole numbers.
decode::Region parse_region(const std::string& text) {
  std::array<std::uint32_t, 4> numbers{};
  const char* at = text.data();
  const char* const end = at + text.size();
  bool good = true;
  for (std::size_t i = 0; i < numbers.size() && good; ++i) {
    const auto [rest, error] = std::from_chars(at, end, numbers[i]);
    const bool is_last = i + 1 == numbers.size();
    good = error == std::errc() && (is_last ? rest == end : rest != end && *rest == ',');
    at = is_last ? rest : rest + 1;
  }
  if (!good) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("--region is {:?}; it must be x,y,w,h in pixels, such as 0,0,224,224", text));
  }
  return {numbers[0], numbers[1], numbers[2], numbers[3]};
}

[[noreturn]] void raise_for(const std::string& file, const Failure& failure) {
  throw Error(failure.code, printable(file) + ": " + failure.message);
}

int run(const Options& options) {
  const bool as_png = options.out.ends_with(".png");
  if (!as_png && !options.out.ends_with(".npy")) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--out is {:?}; it must end in .npy or .png", options.out));
  }
  formats::check_output("--out", options.out, {{options.file}, {}, nullptr}, formats::never_own);
  const std::vector<std::byte> encoded = read_whole_file(options.file);
  decode::DecodeLimits limits;
  limits.max_pixels = options.max_pixels;
  decode::ImageDecoder decoder(limits, options.orientation == "upright",
                               pipeline::kJpegEngineNames.at(options.jpeg_engine));
  const auto info = decoder.open(encoded);
  if (!info) raise_for(options.file, info.error());
  const decode::Region region =
      options.region.empty() ? info->whole() : parse_region(options.region);
  const std::uint64_t right = std::uint64_t{region.x_px} + region.width_px;
  const std::uint64_t bottom = std::uint64_t{region.y_px} + region.height_px;
  if (region.width_px == 0 || region.height_px == 0 || right > info->width_px ||
      bottom > info->height_px) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: the region {} does not lie in the picture of {} x {} pixels; give x,y,w,h "
                    "that is not empty and ends inside",
                    printable(options.file), options.region, info->width_px, info->height_px));
  }
  std::vector<std::uint8_t> pixels(std::size_t{3} * region.width_px * region.height_px);
  const auto read = decoder.read_region(region, pixels.data(), std::size_t{3} * region.width_px);
  if (!read) raise_for(options.file, read.error());
  if (!decoder.complaint().empty()) {
    note(fmt::format("{}: {}; restore the file from its source", printable(options.file),
                     decoder.complaint()));
  }
  if (as_png) {
    write_png(options.out, pixels.data(), region.width_px, region.height_px);
  } else {
    write_npy(options.out, {pixels.data(), DType::kUint8, {region.height_px, region.width_px, 3}});
  }
  return kGood;
}

}  // namespace

void add_decode(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("decode", "Decode one picture to .npy or .png");
  command->add_option("file", options->file, "The picture")->required();
  command->add_option("--out", options->out, "X.npy (uint8, height x width x 3) or X.png")
      ->required();
  command->add_option("--region", options->region, "x,y,w,h: only this rectangle, in pixels")
      ->check(not_empty());
  command->add_option("--orientation", options->orientation, "As stored, or turned by EXIF")
      ->check(CLI::IsMember({"keep", "upright"}))
      ->capture_default_str();
  add_jpeg_engine(*command, options->jpeg_engine);
  command->add_option("--max-pixels", options->max_pixels, "Refuse larger pictures")
      ->check(whole_number(1, std::uint64_t{1} << 40))
      ->capture_default_str();
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
