// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/jpeg_decoder.h"

#include <new>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/decode/bytes.h"
#include "feedrace/decode/jpeg_header.h"
#include "feedrace/decode/messages.h"

namespace feedrace::decode {

const char* to_string(JpegEngine engine) noexcept {
  return engine == JpegEngine::kFeedrace ? "feedrace" : "libjpeg-turbo";
}

JpegDecoder::JpegDecoder(JpegEngine engine)
    : ours_(engine == JpegEngine::kFeedrace ? jpeg::PictureDecoder::make() : nullptr) {
  if (engine == JpegEngine::kFeedrace && ours_ == nullptr) {
    unusual_ = "this machine has none of the instructions that ours is written for";
  }
}

bool JpegDecoder::accepts(std::span<const std::byte> encoded) const noexcept {
  return holds(encoded, 0, "\xff\xd8");
}

/// Decides who decodes the picture.
Result<ImageInfo> JpegDecoder::read_header(std::span<const std::byte> encoded,
                                           const DecodeLimits& limits) {
  if (ours_ != nullptr) unusual_ = jpeg::read_frame(encoded, frame_);
  is_ours_ = ours_ != nullptr && unusual_ == nullptr;
  if (!is_ours_) return libjpeg_.probe(encoded, limits);
  const Result<JpegHeader> header = read_jpeg_header(encoded);
  if (!header) return header.error();
  if (auto fits = check_size("JPEG", frame_.width_px, frame_.height_px, limits); !fits) {
    return fits.error();
  }
  return ImageInfo{frame_.width_px, frame_.height_px, frame_.component_count, header->orientation,
                   "jpeg"};
}

Result<ImageInfo> JpegDecoder::probe(std::span<const std::byte> encoded,
                                     const DecodeLimits& limits) {
  complaint_.clear();
  rows_done_ = region_.height_px = 0;
  return read_header(encoded, limits);
}

Result<void> JpegDecoder::begin(std::span<const std::byte> encoded, const Region& region,
                                const DecodeLimits& limits) {
  complaint_.clear();
  damage_ = nullptr;
  rows_done_ = region_.height_px = 0;
  encoded_ = encoded;
  limits_ = limits;
  crop_use_ = {};
  if (ours_ != nullptr) unusual_ = jpeg::read_frame(encoded, frame_);
  is_ours_ = ours_ != nullptr && unusual_ == nullptr;
  const bool is_foreign = ours_ != nullptr && !is_ours_;
  if (is_ours_) {
    if (auto fits = check_size("JPEG", frame_.width_px, frame_.height_px, limits); !fits) {
      return fits;
    }
    region_ = region;
    const Result<bool> begun = begin_ours();
    if (!begun) return begun.error();
    is_ours_ = *begun;
  }
  if (!is_ours_) {
    if (auto begun = libjpeg_.begin(encoded, region, limits); !begun) return begun;
  }
  // Its crop index was made of another one, which had the name before.
  if (is_foreign && !crop_bytes_.empty()) crop_use_.refusal = jpeg::CropIndex::kOfAnotherFile;
  region_ = region;
  count_begun();
  return {};
}

void JpegDecoder::count_begun() noexcept {
  ++(is_ours_ ? counts_.feedrace : counts_.libjpeg_turbo);
  if (!is_ours_) counts_.kind = unusual_;
}

/// False: libjpeg-turbo shall do it.
Result<bool> JpegDecoder::begin_ours() {
  const jpeg::Window window{region_.x_px, region_.y_px, region_.width_px, region_.height_px};
  const std::uint64_t needed = jpeg::PictureDecoder::memory_bytes(frame_, window);
  if (needed > limits_.max_memory_bytes) {
    unusual_ = "more memory than the limit";
    return false;
  }
  try {
    if (!ours_->begin(encoded_, frame_, window, read_crops())) {
      unusual_ = "Huffman table";
      crop_use_.is_used = false;
      return false;
    }
  } catch (const std::bad_alloc&) {
    region_.height_px = 0;
    return out_of_memory("JPEG", needed);
  }
  if (!has_end_marker(encoded_.subspan(frame_.scan_at))) {
    complain("the end marker (EOI) is missing");
  }
  return true;
}

void JpegDecoder::set_crop_index(std::span<const std::byte> bytes) noexcept {
  crop_bytes_ = bytes;
  crop_use_ = {};
  are_crops_read_ = false;
}

/// Null where there are none, none that fit, or where the region is the whole picture.
const jpeg::CropIndex* JpegDecoder::read_crops() {
  const bool is_whole =
      region_.width_px == frame_.width_px && region_.height_px == frame_.height_px;
  if (crop_bytes_.empty() || is_whole) return nullptr;
  if (!are_crops_read_) {
    crop_use_.refusal = crops_.read(crop_bytes_, encoded_, frame_);
    if (crop_use_.refusal != nullptr) return nullptr;
    are_crops_read_ = true;
  }
  crop_use_.is_used = true;
  return &crops_;
}

/// Ours met damage: the rows that are left are libjpeg-turbo's.
Result<void> JpegDecoder::hand_over() {
  is_ours_ = false;
  --counts_.feedrace;
  ++counts_.damaged;
  damage_ = ours_->damage();
  Region rest = region_;
  rest.y_px += rows_done_;
  rest.height_px -= rows_done_;
  return libjpeg_.begin(encoded_, rest, limits_);
}

Result<void> JpegDecoder::read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                                    std::uint32_t row_count) {
  if (row_count > region_.height_px - rows_done_) {
    return Failure{ErrorCode::kInvalidArgument,
                   fmt::format("JPEG decoder: {} rows asked for, {} left; call begin() first",
                               row_count, region_.height_px - rows_done_)};
  }
  std::uint32_t done = 0;
  Result<void> read;
  if (is_ours_) {
    done = ours_->read_rows(rgb, row_bytes, row_count);
    rows_done_ += done;
    if (done < row_count) read = hand_over();
  }
  if (read && done < row_count) {
    read = libjpeg_.read_rows(rgb + done * row_bytes, row_bytes, row_count - done);
    rows_done_ += row_count - done;
  }
  if (!read) {
    rows_done_ = region_.height_px = 0;
    return read;
  }
  if (rows_done_ == region_.height_px && !is_ours_) {
    complaint_ = libjpeg_.complaint();
    if (damage_ != nullptr && complaint_.empty()) complain(damage_);
  }
  return {};
}

void JpegDecoder::complain(std::string_view text) {
  if (!complaint_.empty()) complaint_ += "; ";
  complaint_ += text;
}

std::size_t JpegDecoder::scratch_bytes() const noexcept {
  return libjpeg_.scratch_bytes() + crops_.memory_bytes() +
         (ours_ == nullptr ? 0 : ours_->scratch_bytes());
}

}  // namespace feedrace::decode
