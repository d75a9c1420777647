// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "feedrace/decode/frame_reader.h"
#include "feedrace/decode/scratch.h"
#include "feedrace/decoder.h"

namespace feedrace::decode {

/// Where the pixels of a decoded picture lie in a plain array.
struct NpyPicture {
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
  std::uint32_t channel_count = 3;  ///< 3, or 1: grey.
  std::size_t pixels_at_bytes = 0;

  std::size_t row_bytes() const noexcept { return std::size_t{width_px} * channel_count; }
  std::size_t end_bytes() const noexcept { return pixels_at_bytes + row_bytes() * height_px; }
};

/// Of an array of `size_bytes`, of which `front` is the begin: all of it, or at least
/// `kMaxNpyHeaderBytes`. Failures: those of `NpyDecoder::probe`; kCorruptData for a frame.
Result<NpyPicture> find_npy_picture(std::span<const std::byte> front, std::uint64_t size_bytes,
                                    const DecodeLimits& limits);

/// Pictures that are decoded already: NumPy's `.npy` of uint8 [H, W, 3] or [H, W] (grey) in C
/// order, plain or as one LZ4 or Zstandard frame. Plain RGB is not copied: `rows_in_place()` gives
/// it where it lies. A frame is unpacked as far as the region's last row; damage behind it goes
/// unnoticed, and so does a wrong pixel of a plain array, which has no checksum.
class NpyDecoder final : public Decoder {
 public:
  bool accepts(std::span<const std::byte> encoded) const noexcept override;
  Result<ImageInfo> probe(std::span<const std::byte> encoded, const DecodeLimits& limits) override;
  Result<void> begin(std::span<const std::byte> encoded, const Region& region,
                     const DecodeLimits& limits) override;
  PixelRows rows_in_place() const noexcept override;
  Result<void> read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                         std::uint32_t row_count) override;
  const std::string& complaint() const noexcept override { return no_complaint_; }

  std::size_t scratch_bytes() const noexcept {
    return unpacked_.size_bytes() + frames_.memory_bytes();
  }

 private:
  Result<void> open(std::span<const std::byte> encoded, const DecodeLimits& limits);
  Result<void> open_frame(std::span<const std::byte> encoded, const DecodeLimits& limits);
  Result<void> unpack(std::size_t end_bytes, const DecodeLimits& limits);

  FrameReader frames_;
  Scratch unpacked_;
  /// The array's header, unpacked: what `frames_` gave so far.
  std::string front_;
  NpyPicture array_;  ///< In hand.
  Region region_;
  const std::uint8_t* next_row_ = nullptr;  ///< From the region's left edge on.
  std::uint32_t rows_left_ = 0;
  const std::string no_complaint_;
};

}  // namespace feedrace::decode
