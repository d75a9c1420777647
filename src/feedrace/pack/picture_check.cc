// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/picture_check.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/tensor.h"

namespace feedrace::pack {
namespace {

constexpr std::uint32_t kRowsAtOnce = 64;
/// Kept between samples; a poster must not cost each thread its memory to the end.
constexpr std::size_t kKeptBytes = std::size_t{16} << 20;
constexpr std::string_view kNpyMagic = "\x93NUMPY";

/// What the loader takes for a decoded picture; other arrays are for the recipe raw.
bool is_picture(const decode::NpyHeader& header) {
  const std::vector<std::int64_t>& shape = header.shape;
  return header.dtype == DType::kUint8 &&
         (shape.size() == 2 || (shape.size() == 3 && shape[2] == 3));
}

}  // namespace

std::span<std::byte> PictureCheck::memory(std::size_t bytes) {
  if (encoded_.size() > kKeptBytes && bytes <= kKeptBytes) encoded_ = {};
  if (encoded_.size() < bytes) encoded_.resize(bytes);
  return std::span(encoded_).first(bytes);
}

Result<PictureCheck::Outcome> PictureCheck::check(std::span<const std::byte> encoded) {
  const bool is_array = encoded.size() >= kNpyMagic.size() &&
                        std::memcmp(encoded.data(), kNpyMagic.data(), kNpyMagic.size()) == 0;
  if (is_array) {
    const auto header = decode::read_npy_header(encoded);
    if (!header) return header.error();
    if (!is_picture(*header)) return check_array(*header, encoded.size());
  }
  const auto info = decoder_.open(encoded);
  if (!info) return info.error();
  if (const auto begun = decoder_.begin(info->whole()); !begun) return begun.error();
  const std::size_t row_bytes = std::size_t{3} * info->width_px;
  rows_.resize(row_bytes * std::min(kRowsAtOnce, info->height_px));
  for (std::uint32_t row = 0; row < info->height_px; row += kRowsAtOnce) {
    const std::uint32_t count = std::min(kRowsAtOnce, info->height_px - row);
    const auto read = decoder_.read_rows(rows_.data(), row_bytes, count);
    if (!read) return read.error();
  }
  return Outcome{std::uint64_t{info->width_px} * info->height_px, decoder_.complaint()};
}

Result<PictureCheck::Outcome> PictureCheck::check_array(const decode::NpyHeader& header,
                                                        std::size_t size_bytes) {
  const std::uint64_t there = size_bytes - header.values_at_bytes;
  std::uint64_t wanted = size_of(header.dtype);
  for (const std::int64_t extent : header.shape) {
    const auto count = static_cast<std::uint64_t>(extent);
    if (extent < 0 || (count != 0 && wanted > ~std::uint64_t{0} / count))
      wanted = ~std::uint64_t{0};
    else
      wanted *= count;
  }
  if (there != wanted) {
    return Failure{ErrorCode::kCorruptData,
                   fmt::format("the array has {} bytes of values and its header says {}; make it "
                               "anew",
                               there, wanted)};
  }
  return Outcome{0, ""};
}

}  // namespace feedrace::pack
