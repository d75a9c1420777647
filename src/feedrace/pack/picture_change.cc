// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/picture_change.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <webp/decode.h>

#include "feedrace/decode/frame_reader.h"
#include "feedrace/decode/image_decoder.h"
#include "feedrace/decode/messages.h"
#include "feedrace/ops/fused_pass.h"
#include "feedrace/ops/resize_target.h"
#include "feedrace/pack/jpeg_output.h"
#include "feedrace/pack/jpeg_transcode.h"
#include "feedrace/pack/picture_output.h"

namespace feedrace::pack {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint32_t kMaxSidePx = 65'500;  // As libjpeg has it.
constexpr unsigned kMaxRestartRows = 65'535;

void check(const PictureChange& change) {
  const auto refuse = [](const std::string& message) {
    throw Error(ErrorCode::kInvalidArgument, "picture change: " + message);
  };
  const bool has_side = change.resize != PictureChange::Resize::kNone;
  if (has_side && (change.side_px == 0 || change.side_px > kMaxSidePx)) {
    refuse(fmt::format("a side of {} px; it must be from 1 to {}", change.side_px, kMaxSidePx));
  }
  if (change.jpeg_quality && (*change.jpeg_quality < 1 || *change.jpeg_quality > 100)) {
    refuse(fmt::format("a JPEG quality of {}; it must be from 1 to 100", *change.jpeg_quality));
  }
  if (change.restart_rows > kMaxRestartRows) {
    refuse(fmt::format("a restart marker every {} rows; it must be from 1 to {}",
                       change.restart_rows, kMaxRestartRows));
  }
  const bool is_jpeg = change.jpeg_quality || change.baseline || change.restart_rows != 0;
  if (change.raw && is_jpeg) {
    refuse("decoded pictures are no JPEG; leave out quality, baseline and restart markers");
  }
}

ops::ImageSize target_of(const PictureChange& change, ops::ImageSize size) {
  const auto [shorter, longer] = std::minmax(size.width_px, size.height_px);
  ops::FullSize full = ops::full_size(size);
  if (change.resize == PictureChange::Resize::kShortest && shorter > change.side_px) {
    full = ops::resize_shorter(size, change.side_px);
  } else if (change.resize == PictureChange::Resize::kLongest && longer > change.side_px) {
    full = ops::resize_longer(size, change.side_px);
  }
  return {static_cast<std::uint32_t>(full.width_px), static_cast<std::uint32_t>(full.height_px)};
}

/// "left.png" as a JPEG is "left.jpg".
std::string renamed(std::string_view field, std::string_view ending) {
  for (const std::string_view squeezed : {".lz4", ".zst"}) {
    if (field.ends_with(squeezed)) field.remove_suffix(squeezed.size());
  }
  const std::size_t dot = field.rfind('.');
  const std::string_view front =
      dot == std::string_view::npos ? std::string_view() : field.substr(0, dot + 1);
  return fmt::format("{}{}", front, ending);
}

bool is_lossless_webp(Bytes encoded) noexcept {
  constexpr int kLossless = 2;
  WebPBitstreamFeatures features{};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(encoded.data());
  return WebPGetFeatures(bytes, encoded.size(), &features) == VP8_STATUS_OK &&
         features.format == kLossless;
}

/// Green of grey pixels, which have three equal channels.
void keep_one_channel(std::vector<std::uint8_t>& rgb) {
  const std::size_t count = rgb.size() / 3;
  for (std::size_t i = 0; i < count; ++i) rgb[i] = rgb[3 * i];
  rgb.resize(count);
}

RawCompression compression_of(Bytes npy) noexcept {
  switch (decode::frame_kind(npy)) {
    case decode::FrameKind::kLz4:
      return RawCompression::kLz4;
    case decode::FrameKind::kZstd:
      return RawCompression::kZstd;
    default:
      return RawCompression::kNone;
  }
}

}  // namespace

const char* to_string(RawCompression compression) noexcept {
  switch (compression) {
    case RawCompression::kLz4:
      return "lz4";
    case RawCompression::kZstd:
      return "zstd";
    default:
      return "none";
  }
}

std::optional<RawCompression> raw_compression(std::string_view name) noexcept {
  for (const auto one : {RawCompression::kNone, RawCompression::kLz4, RawCompression::kZstd}) {
    if (name == to_string(one)) return one;
  }
  return std::nullopt;
}

bool PictureChange::any() const noexcept {
  return resize != Resize::kNone || jpeg_quality || baseline || restart_rows != 0 || raw;
}

std::vector<std::string> changed_fields(const std::vector<std::string>& image_fields) {
  std::vector<std::string> fields = image_fields;
  for (const std::string& field : image_fields) {
    for (const char* ending : {"jpg", "npy", "npy.lz4", "npy.zst"}) {
      const std::string other = renamed(field, ending);
      if (std::find(fields.begin(), fields.end(), other) == fields.end()) fields.push_back(other);
    }
  }
  return fields;
}

class PictureChanger::Impl {
 public:
  Impl(const PictureChange& change, const decode::DecodeLimits& limits)
      : change_(change),
        limits_(limits),
        stored_(limits, false),
        upright_(limits, true),
        pass_({DType::kUint8, Layout::kHwc, {}, {}}) {}

  Result<ChangedPicture> change(std::string_view encoded, std::string_view field) {
    if (!change_.any()) return unchanged(encoded, field);
    const Bytes bytes = std::as_bytes(std::span(encoded));
    auto opened = stored_.open(bytes);
    if (!opened) return opened.error();
    const decode::ImageInfo info = *opened;
    if (change_.raw) return decoded(bytes, field, change_.raw->compression);
    const ops::ImageSize size{info.width_px, info.height_px};
    const ops::ImageSize target = target_of(change_, size);
    const bool is_resized = target.width_px != size.width_px || target.height_px != size.height_px;
    const bool is_jpeg = info.format == std::string_view("jpeg");
    if (change_.jpeg_quality || (is_resized && is_jpeg)) return as_jpeg(bytes, field, info);
    if (is_resized) return as_it_was(bytes, field, info);
    if (is_jpeg && (change_.baseline || change_.restart_rows != 0)) {
      return transcoded(encoded, field);
    }
    return unchanged(encoded, field);
  }

 private:
  static ChangedPicture unchanged(std::string_view encoded, std::string_view field) {
    return {std::string(encoded), std::string(field), false};
  }

  Result<ChangedPicture> transcoded(std::string_view encoded, std::string_view field) {
    auto made = transcode_jpeg(std::as_bytes(std::span(encoded)),
                               {change_.baseline, change_.restart_rows}, limits_);
    if (!made) return made.error();
    if (!*made) return unchanged(encoded, field);
    return ChangedPicture{*std::move(*made), std::string(field), true};
  }

  Result<ChangedPicture> as_jpeg(Bytes encoded, std::string_view field,
                                 const decode::ImageInfo& info) {
    const bool is_jpeg = info.format == std::string_view("jpeg");
    if (auto read = read_pixels(is_jpeg ? stored_ : upright_, encoded); !read) return read.error();
    const bool is_grey = info.component_count <= 2;
    if (is_grey) keep_one_channel(rgb_);
    std::vector<JpegSegment> segments;
    if (is_jpeg) segments = kept_segments(encoded, info.component_count == 4);
    auto made = encode_jpeg({rgb_.data(), size_.width_px, size_.height_px, is_grey ? 1U : 3U},
                            change_.jpeg_quality.value_or(kDefaultJpegQuality),
                            change_.restart_rows, segments);
    if (!made) return made.error();
    return ChangedPicture{*std::move(made), is_jpeg ? std::string(field) : renamed(field, "jpg"),
                          true};
  }

  /// Another size of what is no JPEG.
  Result<ChangedPicture> as_it_was(Bytes encoded, std::string_view field,
                                   const decode::ImageInfo& info) {
    const std::string_view format = info.format;
    if (format == "npy") return decoded(encoded, field, compression_of(encoded));
    if (auto read = read_pixels(upright_, encoded); !read) return read.error();
    const bool is_grey = info.component_count <= 2;
    if (is_grey && format == "png") keep_one_channel(rgb_);
    auto made = format == "png" ? write_png(rgb_, size_.width_px, size_.height_px, is_grey ? 1 : 3)
                                : write_webp(rgb_, size_.width_px, size_.height_px,
                                             is_lossless_webp(encoded), kDefaultJpegQuality);
    if (!made) return made.error();
    return ChangedPicture{*std::move(made), std::string(field), true};
  }

  Result<ChangedPicture> decoded(Bytes encoded, std::string_view field,
                                 RawCompression compression) {
    if (auto read = read_pixels(upright_, encoded); !read) return read.error();
    std::unique_ptr<NpyOutput>& output = outputs_[static_cast<std::size_t>(compression)];
    if (!output) output = std::make_unique<NpyOutput>(compression);
    auto made = output->write(rgb_, size_.width_px, size_.height_px);
    if (!made) return made.error();
    return ChangedPicture{*std::move(made), renamed(field, output->field()), true};
  }

  /// Decodes and resizes to `rgb_`, `size_`.
  Result<void> read_pixels(decode::ImageDecoder& decoder, Bytes encoded) {
    const auto info = decoder.open(encoded);
    if (!info) return info.error();
    const ops::ImageSize source{info->width_px, info->height_px};
    size_ = target_of(change_, source);
    const std::uint64_t needed = std::uint64_t{3} * size_.width_px * size_.height_px;
    if (needed > limits_.max_memory_bytes) {
      return decode::needs_too_much_memory(info->format, needed, limits_);
    }
    rgb_.resize(static_cast<std::size_t>(needed));
    const bool is_resized =
        source.width_px != size_.width_px || source.height_px != size_.height_px;
    auto read = is_resized ? resize(decoder, source)
                           : decoder.read_region(info->whole(), rgb_.data(),
                                                 std::size_t{3} * size_.width_px);
    if (!read || decoder.complaint().empty()) return read;
    return decode::corrupt(
        fmt::format("damaged picture, not to be written anew: {}", decoder.complaint()));
  }

  /// Row by row: the picture is never in memory in its old size.
  Result<void> resize(decode::ImageDecoder& decoder, ops::ImageSize source) {
    pass_.begin({ops::resize_to(source, size_), false}, rgb_.data());
    // All rows are read, even those that no pixel needs: the last ones tell of damage.
    if (auto begun = decoder.begin({0, 0, source.width_px, source.height_px}); !begun) return begun;
    const ops::CropBox part = pass_.source();
    const std::size_t row_bytes = std::size_t{3} * source.width_px;
    band_.resize(row_bytes * ops::FusedPass::kBandRows);
    for (std::uint32_t y = 0; y < source.height_px;) {
      const std::uint32_t rows = std::min(ops::FusedPass::kBandRows, source.height_px - y);
      if (auto read = decoder.read_rows(band_.data(), row_bytes, rows); !read) return read;
      const std::uint32_t begin = std::max(y, part.y_px);
      const std::uint32_t end = std::min(y + rows, part.y_px + part.height_px);
      if (begin < end) {
        pass_.push_rows(band_.data() + (begin - y) * row_bytes + std::size_t{3} * part.x_px,
                        row_bytes, end - begin);
      }
      y += rows;
    }
    return {};
  }

  const PictureChange change_;
  const decode::DecodeLimits limits_;
  decode::ImageDecoder stored_;
  decode::ImageDecoder upright_;
  ops::FusedPass pass_;
  std::array<std::unique_ptr<NpyOutput>, 3> outputs_;
  std::vector<std::uint8_t> rgb_;
  std::vector<std::uint8_t> band_;
  ops::ImageSize size_;
};

PictureChanger::PictureChanger(const PictureChange& change, const decode::DecodeLimits& limits) {
  check(change);
  impl_ = std::make_unique<Impl>(change, limits);
}

PictureChanger::~PictureChanger() = default;
PictureChanger::PictureChanger(PictureChanger&&) noexcept = default;

Result<ChangedPicture> PictureChanger::change(std::string_view encoded, std::string_view field) {
  return impl_->change(encoded, field);
}

}  // namespace feedrace::pack
