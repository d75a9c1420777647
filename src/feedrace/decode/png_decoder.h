// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "feedrace/decode/png_chunks.h"
#include "feedrace/decode/png_pixels.h"
#include "feedrace/decode/scratch.h"
#include "feedrace/decoder.h"

struct spng_ctx;

namespace feedrace::decode {

/// PNG by libspng, row by row; interlaced pictures as a whole, in memory that counts against the
/// limits. Gamma, profiles and texts are not looked at. Rows above the region have to be inflated,
/// those below it are not: damage there goes unnoticed.
class PngDecoder final : public Decoder {
 public:
  PngDecoder() noexcept = default;
  PngDecoder(const PngDecoder&) = delete;  // libspng keeps a pointer to `stream_`.
  PngDecoder& operator=(const PngDecoder&) = delete;

  bool accepts(std::span<const std::byte> encoded) const noexcept override;
  Result<ImageInfo> probe(std::span<const std::byte> encoded, const DecodeLimits& limits) override;
  Result<void> begin(std::span<const std::byte> encoded, const Region& region,
                     const DecodeLimits& limits) override;
  Result<void> read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                         std::uint32_t row_count) override;
  const std::string& complaint() const noexcept override { return complaint_; }

  std::size_t scratch_bytes() const noexcept { return rows_.size_bytes(); }

 private:
  struct FreeContext {
    void operator()(spng_ctx* context) const noexcept;
  };

  Result<PngHeader> open(std::span<const std::byte> encoded, const DecodeLimits& limits);
  Result<void> start();
  Result<void> read_palette();
  Result<void> read_row(std::uint8_t* rgb);
  Result<void> decode_row(std::uint8_t* to);
  Result<void> finish();
  void close() noexcept;

  PngPixelStream stream_;
  std::unique_ptr<spng_ctx, FreeContext> context_;
  Scratch rows_;  // One row as PNG packs it, or the whole picture when it is interlaced.
  PngHeader header_;
  PngPalette palette_;
  Region region_;
  std::uint32_t next_row_ = 0;  // Of the picture.
  std::uint32_t rows_left_ = 0;
  std::size_t encoded_bytes_ = 0;
  std::string complaint_;
};

}  // namespace feedrace::decode
