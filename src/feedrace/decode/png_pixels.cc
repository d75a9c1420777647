// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/png_pixels.h"

#include <algorithm>
#include <cstring>

namespace feedrace::decode {
namespace {

/// Sample `index` of a row of samples of 1, 2, 4 or 8 bits, the leftmost in the high bits.
std::uint32_t packed_sample(const std::uint8_t* row, std::size_t index, std::uint32_t depth) {
  const std::size_t bit = index * depth;
  const auto shift = static_cast<std::uint32_t>(8 - depth - bit % 8);
  return (static_cast<std::uint32_t>(row[bit / 8]) >> shift) & ((1U << depth) - 1U);
}

void repeat_grey(std::uint8_t grey, std::uint8_t* rgb) noexcept {
  rgb[0] = grey;
  rgb[1] = grey;
  rgb[2] = grey;
}

std::uint8_t deep_sample(const std::uint8_t* at) noexcept {
  return scale_16_to_8(static_cast<std::uint32_t>(at[0]) << 8 | at[1]);
}

void packed_grey(const std::uint8_t* row, std::uint32_t depth, std::uint32_t first_px,
                 std::uint32_t pixel_count, std::uint8_t* rgb) noexcept {
  const std::uint32_t scale = 255 / ((1U << depth) - 1);  // 255, 85, 17, 1: exact.
  for (std::uint32_t i = 0; i < pixel_count; ++i, rgb += 3) {
    const std::uint32_t sample = packed_sample(row, std::size_t{first_px} + i, depth);
    repeat_grey(static_cast<std::uint8_t>(sample * scale), rgb);
  }
}

std::uint32_t indexed(const PngPalette& palette, const std::uint8_t* row, std::uint32_t depth,
                      std::uint32_t first_px, std::uint32_t pixel_count,
                      std::uint8_t* rgb) noexcept {
  std::uint32_t largest = 0;
  for (std::uint32_t i = 0; i < pixel_count; ++i, rgb += 3) {
    const std::uint32_t index = packed_sample(row, std::size_t{first_px} + i, depth);
    largest = std::max(largest, index);
    std::memcpy(rgb, palette.rgb.data() + std::size_t{index} * 3, 3);
  }
  return largest;
}

/// Whole samples of 8 or 16 bits, `channel_count` a pixel; alpha, the last of 2 or 4, is dropped.
void whole_samples(const std::uint8_t* row, std::uint32_t channel_count, bool deep,
                   std::uint32_t first_px, std::uint32_t pixel_count, std::uint8_t* rgb) noexcept {
  const std::size_t sample_bytes = deep ? 2 : 1;
  const std::size_t pixel_bytes = channel_count * sample_bytes;
  const bool grey = channel_count < 3;
  const std::uint8_t* from = row + first_px * pixel_bytes;
  for (std::uint32_t i = 0; i < pixel_count; ++i, from += pixel_bytes, rgb += 3) {
    if (grey) {
      repeat_grey(deep ? deep_sample(from) : from[0], rgb);
      continue;
    }
    for (std::size_t channel = 0; channel < 3; ++channel) {
      rgb[channel] = deep ? deep_sample(from + channel * 2) : from[channel];
    }
  }
}

}  // namespace

std::uint32_t png_row_to_rgb(const PngHeader& header, const PngPalette& palette,
                             const std::uint8_t* row, std::uint32_t first_px,
                             std::uint32_t pixel_count, std::uint8_t* rgb) noexcept {
  if (header.colour_type == 3) {
    return indexed(palette, row, header.bit_depth, first_px, pixel_count, rgb);
  }
  if (header.colour_type == 2 && header.bit_depth == 8) {
    std::memcpy(rgb, row + std::size_t{first_px} * 3, std::size_t{pixel_count} * 3);
  } else if (header.colour_type == 0 && header.bit_depth <= 8) {
    packed_grey(row, header.bit_depth, first_px, pixel_count, rgb);
  } else {
    whole_samples(row, header.channel_count(), header.bit_depth == 16, first_px, pixel_count, rgb);
  }
  return 0;
}

}  // namespace feedrace::decode
