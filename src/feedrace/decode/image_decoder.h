// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "feedrace/decode/jpeg_decoder.h"
#include "feedrace/decode/npy_decoder.h"
#include "feedrace/decode/png_decoder.h"
#include "feedrace/decode/scratch.h"
#include "feedrace/decode/webp_decoder.h"
#include "feedrace/decoder.h"
#include "feedrace/error.h"

namespace feedrace::decode {

/// Decodes pictures of any known format, chosen by their content, and turns them upright if asked
/// to. One instance serves one thread, picture after picture, and keeps its memory between them.
///
/// A picture takes three calls: `open()`, `begin()` with a region, `read_rows()` until the region
/// is through. Messages do not name the sample: the caller knows it and puts it in front.
class ImageDecoder {
 public:
  /// `upright`: pictures are turned as their EXIF tag says; otherwise they are taken as stored.
  explicit ImageDecoder(const DecodeLimits& limits = {}, bool upright = false,
                        JpegEngine engine = JpegEngine::kFeedrace)
      : limits_(limits), upright_(upright), jpeg_(engine) {}

  /// Reads the header. Width and height are those of the upright picture when pictures are turned;
  /// `orientation` is the stored tag all the same. `encoded` must stay alive and unchanged until
  /// the last row is read or the next `open()`. Failures: kCorruptData, kUnsupported.
  /// `crop_index` is one of the picture, from `Dataset::crop_index`, and stays likewise.
  Result<ImageInfo> open(std::span<const std::byte> encoded,
                         std::span<const std::byte> crop_index = {});

  /// Makes the rows of `region` ready; more than one region of a picture may be read, one after
  /// the other. `region` counts in pixels of the picture as `open()` described it. Failures:
  /// kInvalidArgument for a region that is empty or leaves the picture, kCorruptData, kUnsupported.
  Result<void> begin(const Region& region);

  /// Behind `begin()`: the region's rows where they lie already, for pictures that need no decoding
  /// and no turning; `rgb` is null for all others. They stay as long as `encoded`, and until the
  /// next `begin()` or `open()`.
  PixelRows rows_in_place() const noexcept;

  /// Writes the next `row_count` rows of the region to `rgb`: `region.width_px * 3` bytes each,
  /// `row_bytes` apart (may be padded). Failure: kCorruptData; kInvalidArgument for more rows than
  /// the region has.
  Result<void> read_rows(std::uint8_t* rgb, std::size_t row_bytes, std::uint32_t row_count);

  /// `begin()` and all rows.
  Result<void> read_region(const Region& region, std::uint8_t* rgb, std::size_t row_bytes);

  /// What the decoder complained about although it gave pixels; empty when nothing. Valid after
  /// the last row, until the next `begin()` or `open()`.
  const std::string& complaint() const noexcept;

  /// What became of the crop index, since `begin()`.
  CropUse crop_use() const noexcept;
  /// JPEG pictures begun, by who decoded them.
  const JpegStats& jpeg_counts() const noexcept { return jpeg_.counts(); }

  /// Memory kept for the next picture.
  std::size_t scratch_bytes() const noexcept;

 private:
  Result<void> begin_turned(const Region& region);

  const DecodeLimits limits_;
  const bool upright_;
  JpegDecoder jpeg_;
  PngDecoder png_;
  WebpDecoder webp_;
  NpyDecoder npy_;
  const std::array<Decoder*, 4> decoders_ = {&jpeg_, &png_, &webp_, &npy_};
  Decoder* current_ = nullptr;  // Of the picture that is open.
  const std::string no_complaint_;
  bool has_crop_index_ = false;
  std::span<const std::byte> encoded_;
  ImageInfo info_;  // As stored.
  Region stored_;   // What `turned_` holds.
  Scratch turned_;  // The region as stored, when it has to be turned.
  std::uint32_t rows_done_ = 0;
  std::uint32_t row_count_ = 0;  // Of the region, upright.
};

}  // namespace feedrace::decode
