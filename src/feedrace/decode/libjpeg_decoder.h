// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "feedrace/decode/jpeg_state.h"
#include "feedrace/decode/scratch.h"
#include "feedrace/decoder.h"

namespace feedrace::decode {

/// JPEG by libjpeg-turbo with the accurate inverse DCT and smooth chroma: the pixels that Pillow
/// and torchvision give; all kinds of JPEG that it does. Four components are taken as inverted
/// (Adobe's way) whatever the file says, as Pillow does.
///
/// Rows above the region are only entropy-decoded, columns beside it too, rows below it not at
/// all: damage there goes unnoticed but for a missing end marker, which is a complaint.
class LibjpegDecoder final : public Decoder {
 public:
  bool accepts(std::span<const std::byte> encoded) const noexcept override;
  Result<ImageInfo> probe(std::span<const std::byte> encoded, const DecodeLimits& limits) override;
  Result<void> begin(std::span<const std::byte> encoded, const Region& region,
                     const DecodeLimits& limits) override;
  Result<void> read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                         std::uint32_t row_count) override;
  const std::string& complaint() const noexcept override { return complaint_; }

  std::size_t scratch_bytes() const noexcept { return band_.size_bytes(); }

 private:
  Result<ImageInfo> open(std::span<const std::byte> encoded, const DecodeLimits& limits);
  Result<void> start(const DecodeLimits& limits);
  Result<void> check_scans();
  bool place_window(const Region& region) noexcept;
  bool read_direct(std::uint8_t* to, std::size_t row_bytes, std::uint32_t row_count) noexcept;
  bool read_cut(std::uint8_t* rgb, std::size_t row_bytes, std::uint32_t row_count) noexcept;
  bool drop_rows(std::uint32_t row_count) noexcept;
  void finish();
  void complain(const std::string& text);

  JpegState state_;
  Scratch band_;  // A few rows as wide as libjpeg's, from which the region's columns are cut.
  Region region_;
  std::uint32_t skipped_columns_ = 0;  // Decoded columns left of the region.
  std::uint32_t rows_left_ = 0;
  bool collects_ = false;  // Progressive or several scans: all data is read before the first row.
  bool complete_ = false;  // Every coefficient was sent at full accuracy.
  std::string complaint_;
};

}  // namespace feedrace::decode
