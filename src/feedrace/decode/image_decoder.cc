// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/image_decoder.h"

#include <utility>

#include <fmt/format.h>

#include "feedrace/decode/image_format.h"
#include "feedrace/decode/messages.h"
#include "feedrace/decode/turn.h"

namespace feedrace::decode {
namespace {

bool lies_inside(const Region& region, std::uint32_t width_px, std::uint32_t height_px) noexcept {
  return region.width_px > 0 && region.height_px > 0 && region.x_px < width_px &&
         region.y_px < height_px && region.width_px <= width_px - region.x_px &&
         region.height_px <= height_px - region.y_px;
}

}  // namespace

Result<ImageInfo> ImageDecoder::open(std::span<const std::byte> encoded,
                                     std::span<const std::byte> crop_index) {
  jpeg_.set_crop_index(crop_index);
  has_crop_index_ = !crop_index.empty();
  current_ = nullptr;
  row_count_ = 0;
  rows_done_ = 0;
  for (Decoder* decoder : decoders_) {
    if (!decoder->accepts(encoded)) continue;
    Result<ImageInfo> info = decoder->probe(encoded, limits_);
    if (!info) return info;
    current_ = decoder;
    encoded_ = encoded;
    info_ = *info;
    if (upright_ && swaps_sides(info->orientation)) std::swap(info->width_px, info->height_px);
    return info;
  }
  return unreadable(encoded);
}

Result<void> ImageDecoder::begin(const Region& region) {
  row_count_ = 0;
  rows_done_ = 0;
  if (current_ == nullptr) {
    return Failure{ErrorCode::kInvalidArgument,
                   "image decoder: no picture is open; call open() first"};
  }
  const bool swapped = upright_ && swaps_sides(info_.orientation);
  const std::uint32_t width_px = swapped ? info_.height_px : info_.width_px;
  const std::uint32_t height_px = swapped ? info_.width_px : info_.height_px;
  if (!lies_inside(region, width_px, height_px)) {
    return Failure{ErrorCode::kInvalidArgument,
                   fmt::format("image decoder: region {},{} {}x{} of a picture of {}x{} pixels; "
                               "choose one that is not empty and lies inside",
                               region.x_px, region.y_px, region.width_px, region.height_px,
                               width_px, height_px)};
  }
  Result<void> begun = upright_ && info_.orientation != 1
                           ? begin_turned(region)
                           : current_->begin(encoded_, region, limits_);
  if (begun) row_count_ = region.height_px;
  return begun;
}

Result<void> ImageDecoder::begin_turned(const Region& region) {
  stored_ = stored_region(region, info_.orientation, info_.width_px, info_.height_px);
  const std::uint64_t needed = std::uint64_t{stored_.width_px} * stored_.height_px * 3;
  if (needed > limits_.max_memory_bytes) {
    return needs_too_much_memory(info_.format, needed, limits_);
  }
  if (!turned_.reserve(needed)) return out_of_memory(info_.format, needed);
  Result<void> begun = current_->begin(encoded_, stored_, limits_);
  if (!begun) return begun;
  return current_->read_rows(turned_.data(), std::size_t{stored_.width_px} * 3, stored_.height_px);
}

PixelRows ImageDecoder::rows_in_place() const noexcept {
  const bool is_turned = upright_ && info_.orientation != 1;
  if (row_count_ == 0 || is_turned) return {};
  return current_->rows_in_place();
}

Result<void> ImageDecoder::read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                                     std::uint32_t row_count) {
  if (row_count > row_count_ - rows_done_) {
    return Failure{ErrorCode::kInvalidArgument,
                   fmt::format("image decoder: {} rows asked for, {} left; call begin() first",
                               row_count, row_count_ - rows_done_)};
  }
  if (!upright_ || info_.orientation == 1) {
    Result<void> read = current_->read_rows(rgb, row_bytes, row_count);
    if (!read) {
      row_count_ = 0;
      rows_done_ = 0;
      return read;
    }
  } else {
    turn_rows(turned_.data(), stored_.width_px, stored_.height_px, info_.orientation, rows_done_,
              row_count, rgb, row_bytes);
  }
  rows_done_ += row_count;
  return {};
}

Result<void> ImageDecoder::read_region(const Region& region, std::uint8_t* rgb,
                                       std::size_t row_bytes) {
  Result<void> begun = begin(region);
  if (!begun) return begun;
  return read_rows(rgb, row_bytes, region.height_px);
}

const std::string& ImageDecoder::complaint() const noexcept {
  return current_ != nullptr ? current_->complaint() : no_complaint_;
}

CropUse ImageDecoder::crop_use() const noexcept {
  if (current_ == &jpeg_) return jpeg_.crop_use();
  // Of a PNG none is made: it is that of a JPEG which had its name before.
  const bool is_refused =
      current_ != nullptr && has_crop_index_ && jpeg_.preferred_engine() == JpegEngine::kFeedrace;
  return {false, is_refused ? jpeg::CropIndex::kOfAnotherFile : nullptr};
}

std::size_t ImageDecoder::scratch_bytes() const noexcept {
  return jpeg_.scratch_bytes() + png_.scratch_bytes() + webp_.scratch_bytes() +
         npy_.scratch_bytes() + turned_.size_bytes();
}

}  // namespace feedrace::decode
