// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/pad.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>

#include <fmt/format.h>

namespace feedrace::ops {
namespace {

/// One side of the picture and the borders at its ends.
struct Side {
  const char* measure;  ///< "wide", "high".
  std::uint32_t picture_px;
  std::uint32_t before_px;
  std::uint32_t after_px;

  std::uint64_t padded_px() const { return std::uint64_t{picture_px} + before_px + after_px; }
};

std::optional<Failure> refusal(const Side& side, PadMode mode) {
  const std::uint32_t border_px = std::max(side.before_px, side.after_px);
  if (mode == PadMode::kReflect && border_px >= side.picture_px) {
    return Failure{
        ErrorCode::kInvalidArgument,
        fmt::format("pad: a border of {} px with mode reflect on a picture {} px {}; make "
                    "the border less than the picture, or use mode symmetric",
                    border_px, side.picture_px, side.measure)};
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (side.padded_px() > kMost) {
    return Failure{ErrorCode::kInvalidArgument,
                   fmt::format("pad: the padded picture is {} px {}; use a smaller border",
                               side.padded_px(), side.measure)};
  }
  return std::nullopt;
}

/// The pixel of a side of `size` pixels that the place `at`, outside or inside, shows.
std::size_t source_of(std::int64_t at, std::uint32_t size, PadMode mode) {
  const std::int64_t last = std::int64_t{size} - 1;
  if (mode == PadMode::kReflect) {
    const std::int64_t positive = at < 0 ? -at : at;
    return static_cast<std::size_t>(positive > last ? 2 * last - positive : positive);
  }
  if (mode == PadMode::kSymmetric) {
    const std::int64_t period = std::int64_t{size} * 2;
    const std::int64_t within = (at % period + period) % period;
    return static_cast<std::size_t>(within > last ? period - 1 - within : within);
  }
  return static_cast<std::size_t>(std::clamp<std::int64_t>(at, 0, last));
}

/// Writes a row of the picture with what lies beside it.
void pad_row(const std::uint8_t* from, std::uint32_t width_px, const Padding& padding,
             std::uint8_t* to) {
  const auto put = [&](std::int64_t at) {
    const bool constant = padding.mode == PadMode::kConstant;
    const std::uint8_t* pixel =
        constant ? padding.fill.data() : from + source_of(at, width_px, padding.mode) * 3;
    std::copy_n(pixel, 3, to);
    to += 3;
  };
  for (std::int64_t at = -std::int64_t{padding.left_px}; at < 0; ++at) put(at);
  std::memcpy(to, from, std::size_t{width_px} * 3);
  to += std::size_t{width_px} * 3;
  for (std::uint32_t i = 0; i < padding.right_px; ++i) put(std::int64_t{width_px} + i);
}

void fill_row(const std::array<std::uint8_t, 3>& fill, std::uint32_t width_px, std::uint8_t* to) {
  for (std::size_t x = 0; x < width_px; ++x) std::copy_n(fill.data(), 3, to + x * 3);
}

}  // namespace

const char* to_string(PadMode mode) noexcept {
  switch (mode) {
    case PadMode::kConstant:
      return "constant";
    case PadMode::kEdge:
      return "edge";
    case PadMode::kReflect:
      return "reflect";
    case PadMode::kSymmetric:
      break;
  }
  return "symmetric";
}

Result<ImageSize> padded_size(ImageSize picture, const Padding& padding) {
  const Side columns = {"wide", picture.width_px, padding.left_px, padding.right_px};
  const Side rows = {"high", picture.height_px, padding.top_px, padding.bottom_px};
  for (const Side& side : {columns, rows}) {
    if (std::optional<Failure> failure = refusal(side, padding.mode)) return *std::move(failure);
  }
  return ImageSize{static_cast<std::uint32_t>(columns.padded_px()),
                   static_cast<std::uint32_t>(rows.padded_px())};
}

void pad(const ConstImageView& input, const ImageView& output, const Padding& padding) noexcept {
  const auto output_row = [&](std::size_t y) { return output.rgb + y * output.row_bytes; };
  for (std::size_t y = 0; y < input.height_px; ++y) {
    pad_row(input.rgb + y * input.row_bytes, input.width_px, padding,
            output_row(padding.top_px + y));
  }
  // A row above or below is a copy of one that is written by now.
  const std::int64_t end = std::int64_t{output.height_px} - padding.top_px;
  for (std::int64_t at = -std::int64_t{padding.top_px}; at < end; ++at) {
    if (at == 0) at = input.height_px;
    if (at == end) break;
    std::uint8_t* to = output_row(static_cast<std::size_t>(at + padding.top_px));
    if (padding.mode == PadMode::kConstant) {
      fill_row(padding.fill, output.width_px, to);
    } else {
      const std::size_t source = source_of(at, input.height_px, padding.mode);
      std::memcpy(to, output_row(padding.top_px + source), std::size_t{output.width_px} * 3);
    }
  }
}

}  // namespace feedrace::ops
