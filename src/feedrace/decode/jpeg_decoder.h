// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "feedrace/decode/libjpeg_decoder.h"
#include "feedrace/decoder.h"
#include "feedrace/jpeg/frame.h"
#include "feedrace/jpeg/picture.h"
#include "feedrace/stats.h"

namespace feedrace::decode {

/// What became of the crop index that came with a picture.
struct CropUse {
  bool is_used = false;
  const char* refusal = nullptr;  ///< Why it can't be used, as the end of a sentence; else null.
};

/// JPEG with the accurate inverse DCT and smooth chroma: the pixels of libjpeg-turbo, and so of
/// Pillow and torchvision. Our own decoder does the usual kinds as long as they are sound. The rest
/// is libjpeg-turbo's; so is a picture in which ours meets damage, from the first row that it can't
/// vouch for: then libjpeg-turbo gives pixels or says what is wrong, and where it says nothing the
/// damage is a complaint.
///
/// Rows above the region are only entropy-decoded, columns beside it too; what lies behind its last
/// block is not read at all: damage there goes unnoticed but for a missing end marker, which is a
/// complaint.
class JpegDecoder final : public Decoder {
 public:
  explicit JpegDecoder(JpegEngine engine = JpegEngine::kFeedrace);

  bool accepts(std::span<const std::byte> encoded) const noexcept override;
  Result<ImageInfo> probe(std::span<const std::byte> encoded, const DecodeLimits& limits) override;
  Result<void> begin(std::span<const std::byte> encoded, const Region& region,
                     const DecodeLimits& limits) override;
  Result<void> read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                         std::uint32_t row_count) override;
  const std::string& complaint() const noexcept override { return complaint_; }

  /// Of the picture that is probed or begun next: a crop index, made by `jpeg::make_crop_index`;
  /// empty: none. Its bytes stay until the last row is read. One that is not of the picture's bytes
  /// is refused, and the picture is decoded without it; so is that of a picture of a kind that ours
  /// leaves to libjpeg-turbo, as none is made of such.
  void set_crop_index(std::span<const std::byte> bytes) noexcept;
  /// Of the region in hand. A whole picture needs no crop index.
  const CropUse& crop_use() const noexcept { return crop_use_; }

  /// Who decodes the usual kinds, the only ones that a crop index is of use to.
  JpegEngine preferred_engine() const noexcept {
    return ours_ != nullptr ? JpegEngine::kFeedrace : JpegEngine::kLibjpegTurbo;
  }

  /// Who decodes the picture in hand; of one that was damaged libjpeg-turbo, from there on.
  JpegEngine engine() const noexcept {
    return is_ours_ ? JpegEngine::kFeedrace : JpegEngine::kLibjpegTurbo;
  }

  /// Pictures begun since the decoder was made, by who decoded them.
  const JpegStats& counts() const noexcept { return counts_; }

  /// Memory kept for the next picture.
  std::size_t scratch_bytes() const noexcept;

 private:
  Result<ImageInfo> read_header(std::span<const std::byte> encoded, const DecodeLimits& limits);
  Result<bool> begin_ours();
  const jpeg::CropIndex* read_crops();
  void count_begun() noexcept;
  Result<void> hand_over();
  void complain(std::string_view text);

  std::unique_ptr<jpeg::PictureDecoder> ours_;  // Null: all is libjpeg-turbo's.
  const char* unusual_ = nullptr;  // Why the picture in hand is libjpeg-turbo's; null: it shall be.
  JpegStats counts_;
  LibjpegDecoder libjpeg_;
  jpeg::Frame frame_;
  std::span<const std::byte> crop_bytes_;
  jpeg::CropIndex crops_;
  bool are_crops_read_ = false;  // Of the picture in hand, by an earlier region.
  CropUse crop_use_;
  bool is_ours_ = false;          // The picture in hand.
  const char* damage_ = nullptr;  // What ours met in it.
  std::span<const std::byte> encoded_;
  DecodeLimits limits_;
  Region region_;
  std::uint32_t rows_done_ = 0;
  std::string complaint_;
};

}  // namespace feedrace::decode
