// SPDX-License-Identifier: Apache-2.0
// Any bytes give pixels or a failure: never a crash, an endless loop, or memory beyond the limits.
// The region is a function of the input, so that a found input replays as it was found.

#include <stdlib.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "feedrace/decode/image_decoder.h"
#include "feedrace/random.h"

namespace {

using feedrace::SampleRandom;
using feedrace::decode::DecodeLimits;
using feedrace::decode::ImageDecoder;
using feedrace::decode::ImageInfo;
using feedrace::decode::Region;

// Small, so that a run spends its time on parsing and not on pixels.
constexpr DecodeLimits kLimits{std::uint64_t{1} << 20, std::uint64_t{64} << 20};

std::uint64_t hash_of(std::span<const std::uint8_t> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a.
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

Region region_of(const ImageInfo& info, SampleRandom& random) {
  if (random.below(4) == 0) return info.whole();
  const auto x = static_cast<std::uint32_t>(random.below(info.width_px));
  const auto y = static_cast<std::uint32_t>(random.below(info.height_px));
  const auto width = static_cast<std::uint32_t>(1 + random.below(info.width_px - x));
  const auto height = static_cast<std::uint32_t>(1 + random.below(info.height_px - y));
  return {x, y, width, height};
}

/// Decodes a region in portions. Every output byte is written: checked by filling the memory with
/// two patterns and comparing, since bytes left alone differ.
void decode(ImageDecoder& decoder, std::span<const std::byte> encoded, std::uint64_t hash) {
  std::vector<std::uint8_t> results[2];
  bool succeeded[2] = {false, false};
  for (int pass = 0; pass < 2; ++pass) {
    SampleRandom random(hash, 0, 0, 0);
    const auto info = decoder.open(encoded);
    if (!info) continue;
    const Region region = region_of(*info, random);
    const std::size_t row_bytes = std::size_t{region.width_px} * 3;
    std::vector<std::uint8_t>& rgb = results[pass];
    rgb.assign(row_bytes * region.height_px, pass == 0 ? 0x00 : 0xff);
    bool good = static_cast<bool>(decoder.begin(region));
    for (std::uint32_t y = 0; good && y < region.height_px;) {
      const auto count = static_cast<std::uint32_t>(1 + random.below(region.height_px - y));
      good = static_cast<bool>(decoder.read_rows(rgb.data() + y * row_bytes, row_bytes, count));
      y += count;
    }
    succeeded[pass] = good;
  }
  if (succeeded[0] != succeeded[1] || (succeeded[0] && results[0] != results[1])) abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Kept between inputs, as a decode thread keeps it: what one picture leaves behind must not show
  // in the next.
  static ImageDecoder as_stored(kLimits, false);
  static ImageDecoder upright(kLimits, true);
  const std::uint64_t hash = hash_of({data, size});
  // A copy without slack, so that reading one byte past the end is seen.
  const std::vector<std::uint8_t> exact(data, data + size);
  const auto encoded = std::as_bytes(std::span(exact));
  decode((hash & 1) != 0 ? upright : as_stored, encoded, hash >> 1);
  return 0;
}
