// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "feedrace/decode/scratch.h"
#include "feedrace/decode/webp_container.h"
#include "feedrace/decoder.h"

namespace feedrace::decode {

/// WebP by libwebp, the region as a whole. Of an animation the first frame, when it fills the
/// canvas; alpha is dropped, the stored colour kept.
class WebpDecoder final : public Decoder {
 public:
  bool accepts(std::span<const std::byte> encoded) const noexcept override;
  Result<ImageInfo> probe(std::span<const std::byte> encoded, const DecodeLimits& limits) override;
  Result<void> begin(std::span<const std::byte> encoded, const Region& region,
                     const DecodeLimits& limits) override;
  Result<void> read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                         std::uint32_t row_count) override;
  const std::string& complaint() const noexcept override { return complaint_; }

  std::size_t scratch_bytes() const noexcept { return pixels_.size_bytes(); }

 private:
  struct Picture {
    WebpContainer container;
    std::uint32_t width_px = 0;
    std::uint32_t height_px = 0;
    bool has_alpha = false;
    bool lossless = false;
  };

  Result<Picture> open(std::span<const std::byte> encoded, const DecodeLimits& limits);
  Result<void> decode(const Picture& picture, std::size_t encoded_bytes);

  Scratch pixels_;  // The window that was decoded: the region and what smoothing needs around it.
  Region window_;
  Region region_;
  std::uint32_t next_row_ = 0;  // Of the region.
  std::string complaint_;       // Always empty: what libwebp accepts it has no doubts about.
};

}  // namespace feedrace::decode
