// SPDX-License-Identifier: Apache-2.0
// Any bytes as a decoded picture, plain or squeezed: pixels or a failure, within the limits, and
// the rows in place are those that are read.

#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "feedrace/decode/npy_decoder.h"
#include "feedrace/random.h"

namespace {

using feedrace::SampleRandom;
using feedrace::decode::DecodeLimits;
using feedrace::decode::NpyDecoder;
using feedrace::decode::PixelRows;
using feedrace::decode::Region;

constexpr DecodeLimits kLimits{std::uint64_t{1} << 20, std::uint64_t{4} << 20};
// Besides what the limit names, LZ4 keeps two blocks of 4 MiB and Zstandard a few tables.
constexpr std::size_t kMostScratchBytes = std::size_t{16} << 20;

/// By what the input itself says, so that it replays.
Region region_of(std::uint32_t width, std::uint32_t height, std::span<const std::uint8_t> input) {
  SampleRandom random(input.size(), input.empty() ? 0 : input.back(), 0, 0);
  const auto x = static_cast<std::uint32_t>(random.below(width));
  const auto y = static_cast<std::uint32_t>(random.below(height));
  return {x, y, static_cast<std::uint32_t>(1 + random.below(width - x)),
          static_cast<std::uint32_t>(1 + random.below(height - y))};
}

void check_rows(NpyDecoder& decoder, const Region& region) {
  const PixelRows rows = decoder.rows_in_place();
  const std::size_t row_bytes = std::size_t{region.width_px} * 3;
  std::vector<std::uint8_t> read(row_bytes * region.height_px);
  if (!decoder.read_rows(read.data(), row_bytes, region.height_px)) abort();
  if (rows.rgb == nullptr) return;
  for (std::size_t y = 0; y < region.height_px; ++y) {
    const std::uint8_t* row = rows.rgb + y * rows.row_bytes;
    if (!std::equal(row, row + row_bytes, read.data() + y * row_bytes)) abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static NpyDecoder decoder;  // Kept, as a decode thread keeps it.
  const std::vector<std::uint8_t> exact(data, data + size);
  const auto encoded = std::as_bytes(std::span(exact));
  const auto info = decoder.probe(encoded, kLimits);
  if (info) {
    const Region region = region_of(info->width_px, info->height_px, exact);
    if (decoder.begin(encoded, region, kLimits)) check_rows(decoder, region);
  }
  if (decoder.scratch_bytes() > kMostScratchBytes) abort();
  return 0;
}
