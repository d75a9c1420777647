// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/turn.h"

#include <utility>

namespace feedrace::decode {
namespace {

// The eight EXIF orientations, taken apart: the upright pixel (x, y) is the stored pixel (x, y),
// or (y, x) where the sides swap, then counted from the right or from the bottom.
constexpr bool from_right(std::uint8_t orientation) noexcept {
  return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}
constexpr bool from_bottom(std::uint8_t orientation) noexcept {
  return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

}  // namespace

Region stored_region(const Region& upright, std::uint8_t orientation, std::uint32_t width_px,
                     std::uint32_t height_px) noexcept {
  Region stored = upright;
  if (swaps_sides(orientation)) {
    std::swap(stored.x_px, stored.y_px);
    std::swap(stored.width_px, stored.height_px);
  }
  if (from_right(orientation)) stored.x_px = width_px - stored.x_px - stored.width_px;
  if (from_bottom(orientation)) stored.y_px = height_px - stored.y_px - stored.height_px;
  return stored;
}

void turn_rows(const std::uint8_t* source, std::uint32_t width_px, std::uint32_t height_px,
               std::uint8_t orientation, std::uint32_t first_row, std::uint32_t row_count,
               std::uint8_t* rgb, std::size_t row_bytes) noexcept {
  const bool swapped = swaps_sides(orientation);
  const std::ptrdiff_t stored_row_bytes = std::ptrdiff_t{width_px} * 3;
  const std::ptrdiff_t step_x = from_right(orientation) ? -3 : 3;
  const std::ptrdiff_t step_y = from_bottom(orientation) ? -stored_row_bytes : stored_row_bytes;
  const std::uint8_t* origin = source;
  if (from_right(orientation)) origin += std::ptrdiff_t{width_px - 1} * 3;
  if (from_bottom(orientation)) origin += std::ptrdiff_t{height_px - 1} * stored_row_bytes;
  const std::ptrdiff_t along = swapped ? step_y : step_x;
  const std::ptrdiff_t down = swapped ? step_x : step_y;
  const std::uint32_t out_width_px = swapped ? height_px : width_px;
  for (std::uint32_t row = 0; row < row_count; ++row) {
    const std::uint8_t* from = origin + std::ptrdiff_t{first_row + row} * down;
    std::uint8_t* to = rgb + row * row_bytes;
    for (std::uint32_t x = 0; x < out_width_px; ++x, from += along, to += 3) {
      to[0] = from[0];
      to[1] = from[1];
      to[2] = from[2];
    }
  }
}

}  // namespace feedrace::decode
