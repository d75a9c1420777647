// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/crop_or_pad.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace feedrace::ops {
namespace {

std::int64_t room(std::uint64_t picture_px, std::uint32_t window_px) {
  return static_cast<std::int64_t>(picture_px) - static_cast<std::int64_t>(window_px);
}

std::int64_t center_offset(std::int64_t room_px) {
  if (room_px < 0) return -(-room_px / 2);
  return static_cast<std::int64_t>(std::nearbyint(static_cast<double>(room_px) / 2.0));
}

std::int64_t placed_offset(std::int64_t room_px, double share) {
  return static_cast<std::int64_t>(std::round(static_cast<double>(room_px) * share));
}

/// Which part [begin, end) of a window's side shows the picture.
struct Shown {
  std::size_t begin;
  std::size_t end;

  Shown(std::int64_t offset_px, std::uint32_t window_px, std::uint32_t picture_px) {
    const std::int64_t last = window_px;
    const auto first_shown = std::clamp<std::int64_t>(-offset_px, 0, last);
    const auto end_shown = std::clamp<std::int64_t>(picture_px - offset_px, first_shown, last);
    begin = static_cast<std::size_t>(first_shown);
    end = static_cast<std::size_t>(end_shown);
  }
};

}  // namespace

CropWindow center_window(FullSize picture, ImageSize size) noexcept {
  return {center_offset(room(picture.width_px, size.width_px)),
          center_offset(room(picture.height_px, size.height_px)), size};
}

CropWindow placed_window(FullSize picture, ImageSize size, double x, double y) noexcept {
  return {placed_offset(room(picture.width_px, size.width_px), x),
          placed_offset(room(picture.height_px, size.height_px), y), size};
}

ResizeWindow resize_to_window(ImageSize picture, FullSize full, const CropWindow& window) noexcept {
  return {picture, full.width_px, full.height_px, window.x_px, window.y_px, window.size};
}

void crop_or_pad(const ConstImageView& input, const ImageView& output,
                 const CropWindow& window) noexcept {
  const std::size_t width_bytes = std::size_t{output.width_px} * 3;
  const Shown columns(window.x_px, output.width_px, input.width_px);
  const Shown rows(window.y_px, output.height_px, input.height_px);
  const std::size_t begin = columns.begin * 3;
  const std::size_t end = columns.end * 3;
  for (std::size_t y = 0; y < output.height_px; ++y) {
    std::uint8_t* to = output.rgb + y * output.row_bytes;
    if (y < rows.begin || y >= rows.end || begin == end) {
      std::memset(to, 0, width_bytes);
      continue;
    }
    const auto from_y = static_cast<std::size_t>(window.y_px + static_cast<std::int64_t>(y));
    const auto from_x =
        static_cast<std::size_t>(window.x_px + static_cast<std::int64_t>(columns.begin));
    std::memset(to, 0, begin);
    std::memcpy(to + begin, input.rgb + from_y * input.row_bytes + from_x * 3, end - begin);
    std::memset(to + end, 0, width_bytes - end);
  }
}

}  // namespace feedrace::ops
