// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "feedrace/error.h"

namespace feedrace::decode {

/// What IHDR says, and the orientation of an eXIf chunk.
struct PngHeader {
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
  std::uint32_t bit_depth = 0;
  std::uint32_t colour_type = 0;  ///< 0 grey, 2 RGB, 3 palette, 4 grey + alpha, 6 RGBA.
  bool interlaced = false;
  std::uint8_t orientation = 1;

  std::uint32_t channel_count() const noexcept {
    switch (colour_type) {
      case 2:
        return 3;
      case 4:
        return 2;
      case 6:
        return 4;
      default:
        return 1;
    }
  }
  /// Of a row of `width_px` pixels as PNG packs them.
  std::uint64_t row_bytes() const noexcept {
    return (std::uint64_t{width_px} * channel_count() * bit_depth + 7) / 8;
  }
};

/// Failure kCorruptData: IHDR is missing, cut off, or says what the standard does not allow.
Result<PngHeader> read_png_header(std::span<const std::byte> encoded);

/// A PNG file without its ancillary chunks. A decoder that never sees them can't be made to inflate
/// texts and profiles that nobody asked for, nor refuse a sound picture because of one.
class PngPixelStream {
 public:
  PngPixelStream() = default;
  explicit PngPixelStream(std::span<const std::byte> encoded) noexcept;

  /// Copies the next `size_bytes` to `to`; false when fewer are left.
  bool read(void* to, std::size_t size_bytes) noexcept;

 private:
  void find_next_chunk() noexcept;

  std::span<const std::byte> chunk_;  // What is left of the signature or of the current chunk.
  std::span<const std::byte> rest_;   // What follows it.
};

}  // namespace feedrace::decode
