// SPDX-License-Identifier: Apache-2.0
// Damaged JPEGs by our decoder, which falls back on libjpeg-turbo, and by libjpeg-turbo alone: both
// fail, or both give the same pixels and ours complains where libjpeg-turbo does.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "feedrace/decode/test_jpeg_engines.h"
#include "feedrace/jpeg/test_jpegs.h"
#include "feedrace/jpeg/test_streams.h"

namespace feedrace::decode {
namespace {

using jpeg::testing::JpegKind;
using testing::JpegEngines;
using Bytes = std::vector<std::byte>;
using Samplings = std::array<std::array<int, 2>, 3>;

constexpr DecodeLimits kLimits{std::uint64_t{1} << 16, std::uint64_t{64} << 20};

constexpr std::array kSamplings = {
    Samplings{{{1, 1}, {1, 1}, {1, 1}}}, Samplings{{{2, 1}, {1, 1}, {1, 1}}},
    Samplings{{{2, 2}, {1, 1}, {1, 1}}}, Samplings{{{1, 2}, {1, 1}, {1, 1}}},
    Samplings{{{4, 1}, {1, 1}, {1, 1}}}, Samplings{{{4, 2}, {1, 1}, {1, 1}}},
    Samplings{{{1, 1}, {2, 2}, {1, 1}}}, Samplings{{{3, 1}, {1, 1}, {1, 1}}},
};

/// The whole picture and a region of it.
std::string fault(JpegEngines& engines, const Bytes& encoded, SampleRandom& random) {
  if (std::string whole = engines.whole_fault(encoded); !whole.empty()) return whole;
  const ImageInfo* info = engines.open(encoded);
  if (info == nullptr) return "";
  const auto x = static_cast<std::uint32_t>(random.below(info->width_px));
  const auto y = static_cast<std::uint32_t>(random.below(info->height_px));
  const Region region{x, y, static_cast<std::uint32_t>(1 + random.below(info->width_px - x)),
                      static_cast<std::uint32_t>(1 + random.below(info->height_px - y))};
  const auto step_rows = static_cast<std::uint32_t>(1 + random.below(region.height_px));
  std::string part = engines.region_fault(encoded, region, step_rows);
  if (part.empty()) return "";
  return fmt::format("region {},{} {}x{}: {}", x, y, region.width_px, region.height_px, part);
}

Bytes make_small(std::uint32_t width_px, std::uint32_t height_px, const Samplings& sampling,
                 unsigned restart_blocks = 0) {
  JpegKind kind;
  kind.width_px = width_px;
  kind.height_px = height_px;
  kind.sampling = sampling;
  kind.restart_blocks = restart_blocks;
  kind.quality = 75;
  kind.has_optimised_tables = true;  // The smaller, the more of it is tried.
  return jpeg::testing::make_jpeg(kind);
}

unsigned at(const Bytes& bytes, std::size_t i) { return std::to_integer<unsigned>(bytes.at(i)); }

/// Places of the marker `second` (its second byte), from the first scan's data on or in front.
std::vector<std::size_t> places_of(const Bytes& bytes, unsigned first_code, unsigned last_code) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i + 1 < bytes.size(); ++i) {
    if (at(bytes, i) != 0xff || at(bytes, i + 1) < first_code || at(bytes, i + 1) > last_code)
      continue;
    places.push_back(i);
  }
  return places;
}

auto place(Bytes& bytes, std::size_t i) { return bytes.begin() + static_cast<std::ptrdiff_t>(i); }

TEST(JpegDamage, CutAtEveryByte) {
  SampleRandom random(1, 0, 0, 0);
  JpegEngines engines(kLimits);
  for (const Samplings& sampling : kSamplings) {
    for (const unsigned restart_blocks : {0U, 2U}) {
      const Bytes sound = make_small(37, 35, sampling, restart_blocks);
      for (std::size_t size = 0; size <= sound.size(); ++size) {
        const Bytes cut(sound.begin(), sound.begin() + static_cast<std::ptrdiff_t>(size));
        ASSERT_EQ(fault(engines, cut, random), "") << size << " of " << sound.size();
      }
    }
  }
  EXPECT_GT(engines.outcomes().failures, 1000U);
  EXPECT_GE(engines.outcomes().pixels, 3 * 2 * kSamplings.size());
}

// A sanitizer makes each ten times as slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kStep = 11;
#else
constexpr unsigned kStep = 1;
#endif

void expect_every_change(const Bytes& sound) {
  SampleRandom random(2, 0, 0, 0);
  JpegEngines engines(kLimits);
  for (std::size_t i = 0; i < sound.size(); ++i) {
    Bytes changed = sound;
    for (unsigned by = 1; by < 256; by += kStep) {
      changed[i] = sound[i] ^ static_cast<std::byte>(by);
      ASSERT_EQ(fault(engines, changed, random), "") << fmt::format(
          "byte {} of {}: {:02x} instead of {:02x}", i, sound.size(), at(changed, i), at(sound, i));
    }
  }
  // Values that change pixels, and codes that no encoder writes.
  EXPECT_GT(engines.outcomes().by_ours, 1000U / kStep);
  EXPECT_GT(engines.outcomes().more_complaints, 10U / kStep);
  EXPECT_GT(engines.outcomes().failures, 1000U / kStep);
}

TEST(JpegDamage, EverySingleByteChangedOfGrey) {
  JpegKind kind;
  kind.width_px = 13;
  kind.height_px = 12;
  kind.stored_as = JCS_GRAYSCALE;
  kind.has_optimised_tables = true;
  kind.quality = 60;
  expect_every_change(jpeg::testing::make_jpeg(kind));
}

TEST(JpegDamage, EverySingleByteChangedOfSmoothedChroma) {
  expect_every_change(make_small(18, 17, kSamplings[2]));
}

TEST(JpegDamage, EverySingleByteChangedOfRestartIntervals) {
  expect_every_change(make_small(17, 9, kSamplings[1], 1));
}

TEST(JpegDamage, LengthsThatLie) {
  SampleRandom random(3, 0, 0, 0);
  JpegEngines engines(kLimits);
  const Bytes sound = make_small(37, 35, kSamplings[2], 2);
  int count = 0;
  for (const std::size_t marker : places_of(sound, 0xc0, 0xfe)) {
    const unsigned code = at(sound, marker + 1);
    if (code >= 0xd0 && code <= 0xd9) continue;  // Those have no length.
    const unsigned length = at(sound, marker + 2) << 8 | at(sound, marker + 3);
    for (const unsigned lie : {0U, 1U, 2U, 3U, length - 1, length + 1, length - 16, length + 17,
                               length + 400, 0xffffU}) {
      Bytes lying = sound;
      lying[marker + 2] = static_cast<std::byte>(lie >> 8 & 0xffU);
      lying[marker + 3] = static_cast<std::byte>(lie & 0xffU);
      ASSERT_EQ(fault(engines, lying, random), "") << fmt::format("{:02x} {}", code, lie);
      ++count;
    }
  }
  EXPECT_GE(count, 60);
}

/// Codes moved from one length to another, too many or too few of them, symbols that mean nothing.
TEST(JpegDamage, TablesThatAreWrong) {
  SampleRandom random(4, 0, 0, 0);
  JpegEngines engines(kLimits);
  for (int i = 0; i < 6000; ++i) {
    Bytes wrong = make_small(37, 35, kSamplings[static_cast<std::size_t>(i) % 5]);
    const auto tables = places_of(wrong, 0xc4, 0xc4);
    const std::size_t table = tables.at(random.below(tables.size()));
    const std::size_t length = at(wrong, table + 2) << 8 | at(wrong, table + 3);
    std::byte& less = wrong.at(table + 5 + random.below(16));
    std::byte& more = wrong.at(table + 5 + random.below(16));
    switch (random.below(4)) {
      case 0:
        less = static_cast<std::byte>(random.next());
        break;
      case 1:
        wrong.at(table + 5 + random.below(length - 3)) = static_cast<std::byte>(random.next());
        break;
      default:
        if (less == std::byte{0}) break;
        less = static_cast<std::byte>(std::to_integer<unsigned>(less) - 1);
        more = static_cast<std::byte>(std::to_integer<unsigned>(more) + 1);
    }
    ASSERT_EQ(fault(engines, wrong, random), "") << i;
  }
  EXPECT_GT(engines.outcomes().failures, 1000U);
}

TEST(JpegDamage, RestartMarkersMissingDoubledAndOutOfOrder) {
  SampleRandom random(5, 0, 0, 0);
  JpegEngines engines(kLimits);
  for (const Samplings& sampling : kSamplings) {
    for (const unsigned interval : {1U, 2U, 3U}) {
      const Bytes sound = make_small(70, 37, sampling, interval);
      const auto markers = places_of(sound, 0xd0, 0xd7);
      ASSERT_GT(markers.size(), 1U);
      for (const std::size_t marker : markers) {
        std::vector<Bytes> damaged(6, sound);
        damaged[0].erase(place(damaged[0], marker), place(damaged[0], marker + 2));
        damaged[1].insert(place(damaged[1], marker), {sound[marker], sound[marker + 1]});
        damaged[2].erase(place(damaged[2], marker), damaged[2].end());
        damaged[3].insert(place(damaged[3], marker), std::byte{0x5a});
        damaged[4].insert(place(damaged[4], marker + 1), std::byte{0xff});  // To fill: no damage.
        damaged[5].insert(place(damaged[5], marker + 2), std::byte{0});
        for (unsigned code = 0xd0; code <= 0xda; ++code) {
          damaged.push_back(sound);
          damaged.back()[marker + 1] = static_cast<std::byte>(code);
        }
        for (std::size_t i = 0; i < damaged.size(); ++i) {
          ASSERT_EQ(fault(engines, damaged[i], random), "")
              << interval << " " << marker << " " << i;
        }
      }
    }
  }
  EXPECT_GT(engines.outcomes().failures, 500U);
}

/// At the end of a row of MCUs too, where the way leads on from marker to marker.
TEST(JpegDamage, BytesLeftOverInFrontOfAnyRestartMarkerAreAComplaint) {
  const Bytes sound = make_small(40, 37, kSamplings[0], 5);
  JpegDecoder ours;
  std::vector<std::uint8_t> rgb(std::size_t{3} * 40 * 37);
  for (const std::size_t marker : places_of(sound, 0xd0, 0xd7)) {
    Bytes longer = sound;
    longer.insert(place(longer, marker), 13, std::byte{0x5a});
    ASSERT_TRUE(ours.begin(longer, {0, 0, 40, 37}, {}));
    ASSERT_TRUE(ours.read_rows(rgb.data(), 120, 37));
    EXPECT_NE(ours.complaint(), "") << marker;
  }
}

/// T.81 allows any number of bytes 0xff in front of a marker.
TEST(JpegDamage, BytesThatFillUpInFrontOfMarkersAreNone) {
  SampleRandom random(8, 0, 0, 0);
  JpegEngines engines(kLimits);
  Bytes filled = make_small(70, 37, kSamplings[2], 2);
  const auto markers = places_of(filled, 0xd0, 0xd9);
  for (std::size_t i = markers.size(); i > 1; --i) {  // All but the first, SOI.
    filled.insert(place(filled, markers[i - 1]), i % 4, std::byte{0xff});
  }
  ASSERT_EQ(fault(engines, filled, random), "");
  EXPECT_EQ(engines.outcomes().by_ours, 1U);
  EXPECT_EQ(engines.outcomes().more_complaints, 0U);
}

/// Levels that rise from block to block until 32 bits are left, once around and back to 0.
TEST(JpegDamage, LevelsThatLeave32BitsAreLibjpegTurbosToJudge) {
  jpeg::Frame frame;
  frame.width_px = 2048;
  frame.height_px = 8 * 513;
  frame.component_count = 1;
  frame.dc[0].counts[0] = 1;
  frame.dc[0].symbols[0] = 15;
  frame.ac[0].counts[0] = 1;  // The end of a block.
  for (auto& quant : frame.quant) quant.fill(1);
  Bytes encoded = jpeg::testing::header_of(frame);
  jpeg::testing::BitWriter writer;
  for (int i = 0; i < 256 * 513; ++i) {  // A DC difference of 2^15 - 1, and the end.
    writer.put(0, 1);
    writer.put(0x7fff, 15);
    writer.put(0, 1);
  }
  jpeg::testing::append(encoded, writer.take());
  jpeg::testing::append(encoded, jpeg::testing::bytes_of({0xff, 0xd9}));
  JpegEngines engines;
  ASSERT_NE(engines.open(encoded), nullptr);
  for (const std::uint32_t y : {0U, 256U * 8, frame.height_px - 8}) {
    EXPECT_EQ(engines.region_fault(encoded, {0, y, frame.width_px, 8}, 8), "") << y;
  }
}

TEST(JpegDamage, IntervalsThatAreNotThoseOfTheMarkers) {
  SampleRandom random(6, 0, 0, 0);
  JpegEngines engines(kLimits);
  for (const Samplings& sampling : kSamplings) {
    for (const unsigned interval : {0U, 1U, 2U, 3U, 4U, 300U}) {
      Bytes wrong = make_small(70, 37, sampling, 2);
      const std::size_t segment = places_of(wrong, 0xdd, 0xdd).at(0);
      wrong[segment + 4] = static_cast<std::byte>(interval >> 8);
      wrong[segment + 5] = static_cast<std::byte>(interval & 0xffU);
      ASSERT_EQ(fault(engines, wrong, random), "") << interval;
    }
  }
}

/// Any bits as codes: levels of all sizes, runs that leave the block, ends that come too early.
TEST(JpegDamage, RandomBitsAsData) {
  SampleRandom random(7, 0, 0, 0);
  JpegEngines engines(kLimits);
  for (int i = 0; i < 4000; ++i) {
    JpegKind kind = jpeg::testing::random_kind(random, 40);
    kind.has_random_tables = i % 2 == 0;
    Bytes encoded = jpeg::testing::make_jpeg(kind);
    jpeg::Frame frame;
    if (jpeg::read_frame(encoded, frame) != nullptr) continue;
    const std::size_t end = encoded.size();
    encoded.resize(frame.scan_at + (i % 3 == 0 ? (end - frame.scan_at) / 2 : 0));
    for (std::uint64_t left = random.below(2000); left > 0; --left) {
      encoded.push_back(static_cast<std::byte>(random.below(255)));
    }
    encoded.insert(encoded.end(), {std::byte{0xff}, std::byte{0xd9}});
    ASSERT_EQ(fault(engines, encoded, random), "") << i << ": " << kind.text();
  }
  EXPECT_GT(engines.outcomes().pixels, 20U);
  EXPECT_GT(engines.outcomes().failures, 500U);
}

}  // namespace
}  // namespace feedrace::decode
