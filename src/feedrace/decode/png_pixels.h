// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "feedrace/decode/png_chunks.h"

namespace feedrace::decode {

/// 16 bits to 8: `value / 257`, rounded to nearest. Dropping the low byte would darken.
constexpr std::uint8_t scale_16_to_8(std::uint32_t value) noexcept {
  return static_cast<std::uint8_t>((value * 255 + 32895) >> 16);
}

struct PngPalette {
  std::uint32_t colour_count = 0;
  std::array<std::uint8_t, std::size_t{256} * 3> rgb{};
};

/// Writes pixels `first_px` to `first_px + pixel_count - 1` of `row`, unfiltered and as PNG packs
/// it, to `rgb`: grey is repeated and scaled, alpha dropped, the palette looked up. Returns the
/// largest palette index met (0 without a palette); those past the palette come out black.
std::uint32_t png_row_to_rgb(const PngHeader& header, const PngPalette& palette,
                             const std::uint8_t* row, std::uint32_t first_px,
                             std::uint32_t pixel_count, std::uint8_t* rgb) noexcept;

}  // namespace feedrace::decode
