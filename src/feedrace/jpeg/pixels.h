// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// From coefficients to RGB, one set of loops for each instruction set. All give the same bits:
// those of libjpeg-turbo's accurate inverse DCT, smooth ("fancy") upsampling and colour conversion.
namespace feedrace::jpeg {

/// Bytes that a loop may write behind the samples that it was asked for.
inline constexpr std::size_t kSpareSamples = 64;

struct PixelKernels {
  const char* name;  ///< "SSE4", "AVX2", ...

  /// Dequantises and transforms `count` blocks, dense in `coefficients`, each in zigzag order;
  /// `last` says where the last that is not 0 lies, or above. `quant`: in zigzag order, 0 to 255.
  /// Writes 8 rows of 8 `count` samples. False: a level is so large that the order of the
  /// arithmetic shows; no encoder of 8-bit pictures gives such.
  bool (*inverse_dct)(const std::int16_t* coefficients, const std::uint8_t* last, std::size_t count,
                      const std::int16_t* quant, std::uint8_t* samples, std::size_t row_bytes);

  // Twice as many samples, each weighted 3 : 1 with its nearer neighbour. `near` is the row that
  // the output lies in, `far` the one above or below it. The sample in front of the first and the
  // one behind the last are read.
  void (*upsample_across)(const std::uint8_t* near, std::size_t count, std::uint8_t* to);
  void (*upsample_both)(const std::uint8_t* near, const std::uint8_t* far, std::size_t count,
                        std::uint8_t* to);
  /// `count` samples; `bias` 1 for the upper row, 2 for the lower.
  void (*upsample_down)(const std::uint8_t* near, const std::uint8_t* far, std::size_t count,
                        unsigned bias, std::uint8_t* to);

  /// Exactly 3 `count` bytes are written; up to `kSpareSamples` are read behind each row.
  void (*ycc_to_rgb)(const std::uint8_t* luma, const std::uint8_t* blue, const std::uint8_t* red,
                     std::size_t count, std::uint8_t* rgb);
  void (*planes_to_rgb)(const std::uint8_t* first, const std::uint8_t* second,
                        const std::uint8_t* third, std::size_t count, std::uint8_t* rgb);
};

/// The sets that this machine can run, the fastest last; empty where there is none.
std::vector<const PixelKernels*> pixel_kernels();

}  // namespace feedrace::jpeg
