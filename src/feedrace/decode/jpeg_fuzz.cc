// SPDX-License-Identifier: Apache-2.0
// Our JPEG decoder against libjpeg-turbo alone, on any bytes: where libjpeg-turbo gives pixels ours
// gives the same, of the whole picture and of a region; where it fails on the whole, ours fails.
// Inputs are changed part by part, so that most get through the header.

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "feedrace/decode/test_jpeg_engines.h"
#include "feedrace/random.h"

namespace {

using feedrace::SampleRandom;
using feedrace::decode::DecodeLimits;
using feedrace::decode::ImageInfo;
using feedrace::decode::Region;
using feedrace::decode::testing::JpegEngines;

using Bytes = std::vector<std::uint8_t>;

// Small, so that a run spends its time on codes and not on rows of grey.
constexpr DecodeLimits kLimits{std::uint64_t{1} << 15, std::uint64_t{64} << 20};

std::uint64_t hash_of(std::span<const std::uint8_t> bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a.
  for (const std::uint8_t byte : bytes) hash = (hash ^ byte) * 0x100000001b3;
  return hash;
}

Region region_of(const ImageInfo& info, SampleRandom& random) {
  const auto x = static_cast<std::uint32_t>(random.below(info.width_px));
  const auto y = static_cast<std::uint32_t>(random.below(info.height_px));
  const auto width = static_cast<std::uint32_t>(1 + random.below(info.width_px - x));
  const auto height = static_cast<std::uint32_t>(1 + random.below(info.height_px - y));
  return {x, y, width, height};
}

void demand(const std::string& fault, const Region& region) {
  if (fault.empty()) return;
  std::fprintf(stderr, "jpeg: region %u,%u %ux%u: ours gives %s\n", region.x_px, region.y_px,
               region.width_px, region.height_px, fault.c_str());
  abort();
}

// ---- Changes ----

/// A segment, from its marker on; the last one is the scan's data.
struct Part {
  std::size_t at = 0;
  std::size_t end = 0;
  unsigned marker = 0;
};

constexpr unsigned kFrame = 0xc0;
constexpr unsigned kHuffmanTables = 0xc4;
constexpr unsigned kScan = 0xda;
constexpr unsigned kQuantTables = 0xdb;
constexpr unsigned kRestartInterval = 0xdd;
constexpr unsigned kScanData = 0x100;

std::vector<Part> parts_of(const Bytes& jpeg) {
  std::vector<Part> parts;
  for (std::size_t at = 2; at + 4 <= jpeg.size() && jpeg[at] == 0xff;) {
    const unsigned marker = jpeg[at + 1];
    const std::size_t end = at + 2 + (jpeg[at + 2] * std::size_t{256} + jpeg[at + 3]);
    if (end > jpeg.size() || end < at + 4) break;
    parts.push_back({at, end, marker});
    at = end;
    if (marker != kScan) continue;
    parts.push_back({at, jpeg.size(), kScanData});
    break;
  }
  return parts;
}

class Change {
 public:
  Change(Bytes& jpeg, SampleRandom& random) : jpeg_(jpeg), random_(random) {}

  void to(const Part& part) {
    switch (part.marker) {
      case kScanData:
        return to_data(part);
      case kHuffmanTables:
        return to_codes(part);
      case kFrame:
        return to_frame(part);
      case kQuantTables:
      case kRestartInterval:
      case kScan:
        jpeg_[between(part.at + 4, part.end)] = any_byte();
        return;
      default:
        to_order(part);
    }
  }

 private:
  std::size_t below(std::size_t bound) { return random_.below(bound == 0 ? 1 : bound); }
  std::size_t between(std::size_t first, std::size_t end) {
    return std::min(first + below(end > first ? end - first : 1), jpeg_.size() - 1);
  }
  std::uint8_t any_byte() { return static_cast<std::uint8_t>(random_.next()); }
  auto place(std::size_t at) { return jpeg_.begin() + static_cast<std::ptrdiff_t>(at); }

  void to_data(const Part& part) {
    if (part.at >= part.end) return;
    const std::size_t at = between(part.at, part.end);
    switch (below(8)) {
      case 0:
        jpeg_[at] = any_byte();
        return;
      case 1:
        jpeg_[at] ^= static_cast<std::uint8_t>(1U << below(8));
        return;
      case 2:
        jpeg_.insert(place(at), any_byte());
        return;
      case 3:
        jpeg_.erase(place(at));
        return;
      case 4: {
        const std::array<std::uint8_t, 2> marker = {
            0xff, static_cast<std::uint8_t>(below(4) == 0 ? below(256) : 0xd0 + below(10))};
        jpeg_.insert(place(at), marker.begin(), marker.end());
        return;
      }
      case 5: {  // A piece once more, somewhere else.
        const std::size_t from = between(part.at, part.end);
        const Bytes piece(place(from), place(std::min(from + 1 + below(64), jpeg_.size())));
        jpeg_.insert(place(at), piece.begin(), piece.end());
        return;
      }
      case 6:
        jpeg_.resize(at);
        return;
      default:  // A stretch of new data, mostly without markers.
        for (std::size_t i = at; i < std::min(at + below(40), jpeg_.size()); ++i) {
          jpeg_[i] = static_cast<std::uint8_t>(below(255));
        }
    }
  }

  /// Keeps the number of codes in half of the cases.
  void to_codes(const Part& part) {
    if (part.end - part.at < 4 + 17) return;
    const std::size_t counts = part.at + 5;
    if (below(2) == 0) {
      jpeg_[between(part.at + 4, part.end)] = any_byte();
      return;
    }
    std::uint8_t& less = jpeg_[counts + below(16)];
    std::uint8_t& more = jpeg_[counts + below(16)];
    const auto moved = static_cast<std::uint8_t>(below(std::size_t{less} + 1));
    less = static_cast<std::uint8_t>(less - moved);
    more = static_cast<std::uint8_t>(more + moved);
  }

  void to_frame(const Part& part) {
    if (part.end - part.at < 10 + 3) return;
    const std::size_t what = below(4);
    if (what < 2) {  // A side, small.
      jpeg_[part.at + (what == 0 ? 5 : 7)] = static_cast<std::uint8_t>(below(16) == 0 ? 1 : 0);
      jpeg_[part.at + (what == 0 ? 6 : 8)] = any_byte();
    } else {
      const std::size_t component = below((part.end - part.at - 10) / 3);
      const std::array<std::uint8_t, 8> samplings = {0x11, 0x21, 0x12, 0x22,
                                                     0x41, 0x14, 0x42, 0x31};
      std::uint8_t& sampling = jpeg_[part.at + 10 + 3 * component + 1];
      sampling = what == 2 ? samplings[below(samplings.size())] : any_byte();
    }
  }

  void to_order(const Part& part) {
    if (below(2) == 0) {
      jpeg_[between(part.at + 1, part.end)] = any_byte();
      return;
    }
    const Bytes copy(place(part.at), place(part.end));
    if (below(2) == 0) {
      jpeg_.insert(place(part.at), copy.begin(), copy.end());
    } else {
      jpeg_.erase(place(part.at), place(part.end));
    }
  }

  Bytes& jpeg_;
  SampleRandom& random_;
};

}  // namespace

// libFuzzer's; absent where inputs are replayed without it.
extern "C" __attribute__((weak)) std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size,
                                                              std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
  SampleRandom random(seed, size, 0, 0);
  Bytes jpeg(data, data + size);
  const std::vector<Part> parts = parts_of(jpeg);
  if (parts.empty() || random.below(8) == 0) {
    return LLVMFuzzerMutate == nullptr ? size : LLVMFuzzerMutate(data, size, max_size);
  }
  // Most of what can go wrong lies behind the header.
  const bool takes_last = random.below(3) > 0;
  Change(jpeg, random).to(takes_last ? parts.back() : parts[random.below(parts.size())]);
  jpeg.resize(std::min(jpeg.size(), max_size));
  std::memcpy(data, jpeg.data(), jpeg.size());
  return jpeg.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Kept between inputs, as a decode thread keeps it: what one picture leaves behind must not show
  // in the next.
  static JpegEngines engines(kLimits);
  // A copy without slack, so that reading one byte past the end is seen.
  const Bytes exact(data, data + size);
  const auto encoded = std::as_bytes(std::span(exact));
  if (!engines.ours().accepts(encoded)) return 0;
  demand(engines.whole_fault(encoded), {});
  const ImageInfo* info = engines.open(encoded);
  if (info == nullptr) return 0;
  SampleRandom random(hash_of(exact), 0, 0, 0);
  for (int i = 0; i < 2; ++i) {
    const Region region = region_of(*info, random);
    const auto step_rows = static_cast<std::uint32_t>(1 + random.below(region.height_px));
    demand(engines.region_fault(encoded, region, step_rows), region);
  }
  return 0;
}
