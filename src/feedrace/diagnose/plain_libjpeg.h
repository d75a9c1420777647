// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "feedrace/decode/jpeg_state.h"
#include "feedrace/decoder.h"
#include "feedrace/error.h"

namespace feedrace::diagnose {

/// libjpeg-turbo as a program calls it that has nothing else: what our decoder is measured against.
/// Accurate inverse DCT, smooth chroma. One instance serves one thread.
class PlainLibjpeg {
 public:
  /// Where libjpeg put the region: it moves the left edge out to a whole block group.
  struct Placed {
    std::uint32_t x_px = 0;
    std::uint32_t width_px = 0;
  };

  /// The whole picture, rows `row_bytes` apart.
  Result<void> read(std::span<const std::byte> encoded, std::uint8_t* rgb, std::size_t row_bytes);

  /// jpeg_crop_scanline, jpeg_skip_scanlines, the region's rows. `rgb` has room for the picture's
  /// width in each. Columns at its sides may be off where chroma is mixed with a neighbour that was
  /// not decoded.
  Result<Placed> read_region(std::span<const std::byte> encoded, const decode::Region& region,
                             std::uint8_t* rgb, std::size_t row_bytes);

  /// Entropy decoding alone. `look` gets libjpeg's structure and arrays of coefficients while they
  /// live; it must hold nothing that has a destructor, for libjpeg leaves it by longjmp.
  using Look = void (*)(void* context, jpeg_decompress_struct& cinfo, jvirt_barray_ptr* arrays);
  Result<void> read_coefficients(std::span<const std::byte> encoded, Look look = nullptr,
                                 void* context = nullptr);

 private:
  Result<void> start(std::span<const std::byte> encoded);
  Result<void> read_rows(std::uint32_t row_count, std::uint8_t* rgb, std::size_t row_bytes);

  decode::JpegState state_;
};

}  // namespace feedrace::diagnose
