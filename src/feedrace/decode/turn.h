// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "feedrace/decoder.h"

namespace feedrace::decode {

/// True when turning a picture of EXIF orientation `orientation` upright swaps width and height.
constexpr bool swaps_sides(std::uint8_t orientation) noexcept { return orientation >= 5; }

/// Where the pixels of `upright`, a region of the picture turned upright, lie in the picture as it
/// is stored, `width_px` x `height_px` there.
Region stored_region(const Region& upright, std::uint8_t orientation, std::uint32_t width_px,
                     std::uint32_t height_px) noexcept;

/// Writes rows `first_row` to `first_row + row_count - 1` of `source` [height_px, width_px, 3],
/// dense, turned upright, to `rgb`, `row_bytes` apart (may be padded). No overlap.
void turn_rows(const std::uint8_t* source, std::uint32_t width_px, std::uint32_t height_px,
               std::uint8_t orientation, std::uint32_t first_row, std::uint32_t row_count,
               std::uint8_t* rgb, std::size_t row_bytes) noexcept;

}  // namespace feedrace::decode
