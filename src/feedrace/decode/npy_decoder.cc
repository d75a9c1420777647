// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/npy_decoder.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/decode/bytes.h"
#include "feedrace/decode/messages.h"
#include "feedrace/decode/npy_header.h"

namespace feedrace::decode {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
/// Magic, version and the longer of the two forms of the length.
constexpr std::size_t kPreludeBytes = 12;

/// Bytes from the begin to the first number, as the prelude says it.
std::size_t stated_header_bytes(std::span<const std::byte> prelude) noexcept {
  const bool is_short = byte_at(prelude, kMagic.size()) == 1;
  const std::size_t bytes = is_short ? 10 + little16(prelude, 8) : 12 + little32(prelude, 8);
  return std::min(bytes, kMaxNpyHeaderBytes);
}

Failure not_a_picture(const NpyHeader& header) {
  return {ErrorCode::kCorruptData,
          fmt::format(".npy array of {} [{}]: a decoded picture is uint8 [H, W, 3] or [H, W]; pack "
                      "it so, or take recipe raw for other arrays",
                      to_string(header.dtype), fmt::join(header.shape, ", "))};
}

Failure wrong_size(std::size_t wanted_bytes, std::size_t found_bytes) {
  return corrupt(fmt::format("{} .npy data: the header says {} bytes in all, and there are {}",
                             found_bytes < wanted_bytes ? "truncated" : "corrupt", wanted_bytes,
                             found_bytes));
}

Result<NpyPicture> read_header(std::span<const std::byte> front, const DecodeLimits& limits) {
  const Result<NpyHeader> header = read_npy_header(front);
  if (!header) return header.error();
  const std::vector<std::int64_t>& shape = header->shape;
  const bool is_grey = shape.size() == 2;
  const bool is_rgb = shape.size() == 3 && shape[2] == 3;
  constexpr std::int64_t kMaxSide = std::numeric_limits<std::uint32_t>::max();
  if (header->dtype != DType::kUint8 || (!is_grey && !is_rgb) || shape[0] > kMaxSide ||
      shape[1] > kMaxSide) {
    return not_a_picture(*header);
  }
  const NpyPicture picture{static_cast<std::uint32_t>(shape[1]),
                           static_cast<std::uint32_t>(shape[0]), is_grey ? 1U : 3U,
                           header->values_at_bytes};
  const Result<void> fits = check_size(".npy", picture.width_px, picture.height_px, limits);
  if (!fits) return fits.error();
  return picture;
}

}  // namespace

Result<NpyPicture> find_npy_picture(std::span<const std::byte> front, std::uint64_t size_bytes,
                                    const DecodeLimits& limits) {
  Result<NpyPicture> picture = read_header(front, limits);
  if (picture && picture->end_bytes() != size_bytes) {
    return wrong_size(picture->end_bytes(), size_bytes);
  }
  return picture;
}

bool NpyDecoder::accepts(std::span<const std::byte> encoded) const noexcept {
  return holds(encoded, 0, kMagic) || frame_kind(encoded) != FrameKind::kNone;
}

/// Unpacks the header and no more, but for what the library unpacks ahead.
Result<void> NpyDecoder::open_frame(std::span<const std::byte> encoded,
                                    const DecodeLimits& limits) {
  if (Result<void> opened = frames_.open(encoded, limits.max_memory_bytes); !opened) return opened;
  front_.resize(kPreludeBytes);
  const auto unpack_from = [this](std::size_t at) -> Result<void> {
    auto* bytes = reinterpret_cast<std::uint8_t*>(front_.data());
    const Result<std::size_t> read = frames_.read({bytes + at, front_.size() - at});
    if (!read) return read.error();
    front_.resize(at + *read);
    return {};
  };
  if (Result<void> read = unpack_from(0); !read) return read;
  if (front_.size() < kPreludeBytes || !front_.starts_with(kMagic)) {
    return unsupported("compressed data that is no .npy array");
  }
  front_.resize(std::max(kPreludeBytes, stated_header_bytes(std::as_bytes(std::span(front_)))));
  return unpack_from(kPreludeBytes);
}

Result<void> NpyDecoder::open(std::span<const std::byte> encoded, const DecodeLimits& limits) {
  rows_left_ = 0;
  next_row_ = nullptr;
  front_.clear();
  const auto keep = [this](const Result<NpyPicture>& array) -> Result<void> {
    if (!array) return array.error();
    array_ = *array;
    return {};
  };
  if (frame_kind(encoded) != FrameKind::kNone) {
    if (Result<void> opened = open_frame(encoded, limits); !opened) return opened;
    return keep(read_header(std::as_bytes(std::span(front_)), limits));
  }
  return keep(find_npy_picture(encoded, encoded.size(), limits));
}

Result<ImageInfo> NpyDecoder::probe(std::span<const std::byte> encoded,
                                    const DecodeLimits& limits) {
  if (Result<void> opened = open(encoded, limits); !opened) return opened.error();
  return ImageInfo{array_.width_px, array_.height_px, array_.channel_count, 1, "npy"};
}

/// Unpacks the array up to `end_bytes` of it.
Result<void> NpyDecoder::unpack(std::size_t end_bytes, const DecodeLimits& limits) {
  if (end_bytes > limits.max_memory_bytes) {
    return needs_too_much_memory(".npy", end_bytes, limits);
  }
  if (!unpacked_.reserve(end_bytes)) return out_of_memory(".npy", end_bytes);
  const std::size_t have = std::min(front_.size(), end_bytes);
  std::memcpy(unpacked_.data(), front_.data(), have);
  const Result<std::size_t> read = frames_.read({unpacked_.data() + have, end_bytes - have});
  if (!read) return read.error();
  if (have + *read < end_bytes) return wrong_size(array_.end_bytes(), have + *read);
  return end_bytes == array_.end_bytes() ? frames_.finish() : Result<void>{};
}

Result<void> NpyDecoder::begin(std::span<const std::byte> encoded, const Region& region,
                               const DecodeLimits& limits) {
  if (Result<void> opened = open(encoded, limits); !opened) return opened;
  const auto* pixels = reinterpret_cast<const std::uint8_t*>(encoded.data());
  if (frame_kind(encoded) != FrameKind::kNone) {
    const std::size_t last_row = std::size_t{region.y_px} + region.height_px;
    const std::size_t end = array_.pixels_at_bytes + last_row * array_.row_bytes();
    if (Result<void> unpacked = unpack(end, limits); !unpacked) return unpacked;
    pixels = unpacked_.data();
  }
  region_ = region;
  next_row_ = pixels + array_.pixels_at_bytes + region.y_px * array_.row_bytes() +
              std::size_t{region.x_px} * array_.channel_count;
  rows_left_ = region.height_px;
  return {};
}

PixelRows NpyDecoder::rows_in_place() const noexcept {
  if (rows_left_ == 0 || array_.channel_count != 3) return {};
  return {next_row_, array_.row_bytes()};
}

Result<void> NpyDecoder::read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                                   std::uint32_t row_count) {
  if (row_count > rows_left_) {
    return Failure{ErrorCode::kInvalidArgument,
                   fmt::format(".npy decoder: {} rows asked for, {} left; call begin() first",
                               row_count, rows_left_)};
  }
  for (std::uint32_t y = 0; y < row_count; ++y) {
    std::uint8_t* to = rgb + y * row_bytes;
    if (array_.channel_count == 3) {
      std::memcpy(to, next_row_, std::size_t{region_.width_px} * 3);
    } else {
      for (std::size_t x = 0; x < region_.width_px; ++x) std::fill_n(to + 3 * x, 3, next_row_[x]);
    }
    next_row_ += array_.row_bytes();
  }
  rows_left_ -= row_count;
  return {};
}

}  // namespace feedrace::decode
