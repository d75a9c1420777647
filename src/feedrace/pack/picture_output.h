// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "feedrace/error.h"
#include "feedrace/pack/picture_change.h"

struct LZ4F_cctx_s;
struct ZSTD_CCtx_s;

namespace feedrace::pack {

/// What stands in front of the pixels of a `.npy` picture, as numpy.save writes it: version 1.0,
/// padded to a multiple of 64 bytes.
std::string npy_header(std::uint32_t width_px, std::uint32_t height_px);

/// Writes decoded pictures. One instance serves one thread and keeps its memory.
class NpyOutput {
 public:
  explicit NpyOutput(RawCompression compression);
  ~NpyOutput();
  NpyOutput(const NpyOutput&) = delete;
  NpyOutput& operator=(const NpyOutput&) = delete;

  /// `rgb` [H, W, 3], without padding. A frame's first block is the header alone, so that a reader
  /// that looks for the size unpacks no pixels. Failure: kIo for no memory.
  Result<std::string> write(std::span<const std::uint8_t> rgb, std::uint32_t width_px,
                            std::uint32_t height_px);

  const char* field() const noexcept;  ///< "npy", "npy.lz4", "npy.zst".

 private:
  struct FreeLz4 {
    void operator()(LZ4F_cctx_s* context) const noexcept;
  };
  struct FreeZstd {
    void operator()(ZSTD_CCtx_s* context) const noexcept;
  };

  Result<std::string> write_lz4(const std::string& header, std::span<const std::uint8_t> rgb);
  Result<std::string> write_zstd(const std::string& header, std::span<const std::uint8_t> rgb);

  const RawCompression compression_;
  std::unique_ptr<LZ4F_cctx_s, FreeLz4> lz4_;
  std::unique_ptr<ZSTD_CCtx_s, FreeZstd> zstd_;
};

/// `pixels` without padding, of 1 or 3 channels, as PNG. Failure: kIo for no memory.
Result<std::string> write_png(std::span<const std::uint8_t> pixels, std::uint32_t width_px,
                              std::uint32_t height_px, std::uint32_t channel_count);

/// As WebP. Failure: kUnsupported for more than 16,383 pixels a side, kIo for no memory.
Result<std::string> write_webp(std::span<const std::uint8_t> rgb, std::uint32_t width_px,
                               std::uint32_t height_px, bool is_lossless, int quality);

}  // namespace feedrace::pack
