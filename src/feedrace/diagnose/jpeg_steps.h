// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "feedrace/diagnose/plain_libjpeg.h"
#include "feedrace/error.h"
#include "feedrace/jpeg/entropy.h"
#include "feedrace/jpeg/frame.h"
#include "feedrace/jpeg/huffman.h"
#include "feedrace/jpeg/pixels.h"
#include "feedrace/jpeg/scan.h"

namespace feedrace::diagnose {

/// CPU time of the calling thread.
std::uint64_t thread_ns();

/// The first steps of our decoder, one by one, over whole pictures: header, entropy decoding and
/// inverse DCT, an MCU row at a time, in memory that is used again, as the decoder has them. One
/// instance serves one thread.
class JpegSteps {
 public:
  /// Null where this machine has no instructions that the loops are written for.
  static std::unique_ptr<JpegSteps> make();

  JpegSteps(const jpeg::EntropyKernels& entropy, const jpeg::PixelKernels& pixels) noexcept
      : scan_(entropy), pixels_(&pixels) {}

  /// Null when our decoder does such a picture; else what is unusual about it.
  const char* unusual(std::span<const std::byte> encoded);

  // Each does what the one before does and one step more: a clock that is asked at each row would
  // take longer than some of them. False: damage, or a picture that is not ours.

  /// Segments and Huffman tables.
  [[nodiscard]] bool begin(std::span<const std::byte> encoded);
  [[nodiscard]] bool decode(std::span<const std::byte> encoded);
  [[nodiscard]] bool transform(std::span<const std::byte> encoded);

  /// Compares every coefficient of the picture with libjpeg's. Failure kCorruptData: one differs,
  /// or only one of the two decodes it; what libjpeg says where both do not.
  Result<void> compare(std::span<const std::byte> encoded, PlainLibjpeg& libjpeg);

 private:
  struct Plane {
    std::uint32_t across = 1;
    std::uint32_t down = 1;
    std::size_t block_count = 0;  // In a row.
    std::size_t step = 0;         // Coefficients from one row of blocks to the next.
    std::vector<std::int16_t> coefficients;
    std::vector<std::uint8_t> last;
    std::vector<std::uint8_t> samples;
    std::array<std::int16_t, 64> quant{};
  };
  struct Comparison;

  void place(std::size_t component);
  bool decode_row();
  bool transform_row();
  static void compare_rows(void* context, jpeg_decompress_struct& cinfo, jvirt_barray_ptr* arrays);

  jpeg::Frame frame_;
  jpeg::TableCache tables_;
  jpeg::Scan scan_;
  const jpeg::PixelKernels* pixels_;
  std::array<Plane, 3> planes_;
};

}  // namespace feedrace::diagnose
