// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/crop_index.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

#include <gtest/gtest.h>
#include <xxhash.h>

#include "feedrace/jpeg/test_encode.h"

namespace feedrace::jpeg {
namespace {

using Bytes = std::vector<std::byte>;
using Mcu = std::vector<std::int16_t>;

Frame frame_of(const Bytes& file) {
  Frame frame;
  EXPECT_EQ(read_frame(file, frame), nullptr);
  return frame;
}

/// Coefficients of the next MCU.
Mcu decode_one(Scan& scan) {
  const auto blocks = scan.blocks();
  Mcu mcu(blocks.size() * kBlockSize + kSpareCoefficients);
  std::array<std::uint8_t, kMaxMcuBlocks> last{};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    blocks[i].coefficients = &mcu[i * kBlockSize];
    blocks[i].last = &last[i];
  }
  EXPECT_TRUE(scan.decode(1));
  mcu.resize(blocks.size() * kBlockSize);
  return mcu;
}

/// A picture, its scan decoded from the start, and its index.
struct Picture {
  Bytes file;
  Frame frame;
  TableCache tables;
  std::vector<Mcu> mcus;
  Bytes index;

  explicit Picture(Bytes encoded) : file(std::move(encoded)), frame(frame_of(file)) {
    Scan scan = started();
    for (std::uint32_t i = 0; i < frame.mcu_columns() * frame.mcu_rows(); ++i) {
      mcus.push_back(decode_one(scan));
    }
    EXPECT_TRUE(scan.is_finished());
    const auto made = make_crop_index(file);
    EXPECT_TRUE(made.has_value());
    if (made) index = *made;
  }

  Scan started() {
    Scan scan(*entropy_kernels().back());
    EXPECT_TRUE(scan.start(file, frame, tables));
    return scan;
  }
};

/// A buffer of its own, so that a sanitizer sees any byte behind it.
class Exact {
 public:
  explicit Exact(std::span<const std::byte> bytes)
      : bytes_(new std::byte[bytes.size()]), size_(bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), bytes_.get());
  }
  std::span<const std::byte> view() const { return {bytes_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t size_;
};

/// The index with a check that holds, whatever else it says.
Bytes forged(Bytes index, const Bytes& file) {
  const XXH64_hash_t of_file = XXH3_64bits(file.data(), file.size());
  const XXH64_hash_t check = XXH3_64bits_withSeed(index.data() + 9, index.size() - 9, of_file);
  for (unsigned i = 0; i < 8; ++i) index[1 + i] = std::byte(check >> (8 * i) & 0xffU);
  return index;
}

void expect_same_from_each_place(const TestJpeg& kind) {
  Picture picture(encode(kind));
  CropIndex index;
  ASSERT_STREQ(index.read(picture.index, picture.file, picture.frame), nullptr);
  ASSERT_GE(index.places().size(), picture.frame.mcu_rows());
  Scan scan = picture.started();
  for (const ScanPlace& place : index.places()) {
    scan.start_at(place);
    EXPECT_EQ(scan.place(), place);
    const std::size_t end = std::min(place.mcu + 40, picture.mcus.size());
    for (std::size_t i = place.mcu; i < end; ++i) {
      ASSERT_EQ(decode_one(scan), picture.mcus[i]) << "MCU " << i << " from " << place.mcu;
    }
  }
}

TEST(CropIndex, EachPlaceLeadsToTheSameCoefficients) {
  constexpr std::array<std::pair<int, int>, 5> kSamplings = {
      {{1, 1}, {2, 1}, {1, 2}, {2, 2}, {4, 1}}};
  for (const auto& [across, down] : kSamplings) {
    for (const auto& [width, height] : {std::pair{160U, 96U}, {403U, 301U}, {170U, 500U}}) {
      SCOPED_TRACE(::testing::Message() << across << "x" << down << " " << width << "x" << height);
      TestJpeg kind{width, height, 3, across, down};
      expect_same_from_each_place(kind);
      kind.has_own_tables = true;
      kind.quality = 60;
      expect_same_from_each_place(kind);
    }
  }
}

TEST(CropIndex, EachPlaceOfAGreyPictureLeadsToTheSameCoefficients) {
  expect_same_from_each_place({211, 307, 1});
}

// 403 px are 51 MCUs a row: intervals that end inside of rows, at places, and at their ends.
TEST(CropIndex, PlacesLieInsideOfRestartIntervals) {
  for (const unsigned interval : {52U, 77U, 102U, 510U, 1000U}) {
    SCOPED_TRACE(interval);
    TestJpeg kind{403, 301};
    kind.restart_interval = interval;
    expect_same_from_each_place(kind);
  }
}

// Enough of a file for its unstuffed window to be moved on many times.
TEST(CropIndex, PlacesOfALargePictureAreThoseOfItsWalk) {
  Picture picture(encode({1200, 900, 3, 2, 2, 97}));
  CropIndex index;
  ASSERT_STREQ(index.read(picture.index, picture.file, picture.frame), nullptr);
  Scan scan = picture.started();
  std::size_t mcu = 0;
  for (const ScanPlace& place : index.places()) {
    ASSERT_TRUE(scan.walk(place.mcu - mcu));
    mcu = place.mcu;
    ASSERT_EQ(scan.place(), place);
  }
}

TEST(CropIndex, FindsTheLastPlaceInFront) {
  Picture picture(encode({403, 301}));
  CropIndex index;
  ASSERT_STREQ(index.read(picture.index, picture.file, picture.frame), nullptr);
  const auto places = index.places();
  for (std::uint32_t row = 0; row < picture.frame.mcu_rows(); ++row) {
    for (std::uint32_t column = 0; column < picture.frame.mcu_columns(); ++column) {
      const std::size_t mcu = std::size_t{row} * picture.frame.mcu_columns() + column;
      const auto behind = std::find_if(places.begin(), places.end(),
                                       [&](const ScanPlace& one) { return one.mcu > mcu; });
      ASSERT_EQ(&index.find(row, column), &*(behind - 1));
    }
  }
}

TEST(CropIndex, TakesAtMostTwoPercentOfTheFile) {
  std::size_t with_index = 0;
  for (const std::uint32_t side : {24U, 64U, 100U, 200U, 400U, 1000U}) {
    for (const int quality : {30, 75, 95}) {
      const Bytes file = encode({side, side, 3, 1, 1, quality});
      const auto index = make_crop_index(file);
      if (!index) continue;
      ++with_index;
      EXPECT_LE((index->size() + 8) * 200, 3 * file.size()) << side << " px, quality " << quality;
    }
  }
  EXPECT_GE(with_index, 12U);
}

TEST(CropIndex, IsNotMadeWhereItCanNotServe) {
  const auto why_none = [](const Bytes& file) {
    std::string reason;
    return make_crop_index(file, &reason) ? "there is one" : reason;
  };
  EXPECT_EQ(why_none({}), "not JPEG");
  EXPECT_EQ(why_none(encode({8, 8})), "too small");
  TestJpeg kind{403, 301};
  EXPECT_EQ(why_none(encode(kind)), "there is one");
  kind.is_progressive = true;
  EXPECT_EQ(why_none(encode(kind)), "left to libjpeg-turbo (progressive)");
  kind.is_progressive = false;
  kind.restart_interval = 51;  // A marker each row.
  EXPECT_EQ(why_none(encode(kind)), "need none (restart markers)");
  kind.restart_interval = 0;
  Bytes damaged = encode(kind);
  damaged.resize(damaged.size() - 100);
  EXPECT_EQ(why_none(damaged), "damaged");
}

TEST(CropIndex, OfAnotherFileIsRefused) {
  Picture picture(encode({120, 90}));
  Bytes other = picture.file;
  CropIndex index;
  for (std::size_t i = picture.frame.scan_at; i < other.size(); i += 7) {
    other[i] ^= std::byte{1};
    EXPECT_STREQ(index.read(picture.index, other, picture.frame), "of another file, or damaged");
    other[i] ^= std::byte{1};
  }
  other.push_back(std::byte{0});
  EXPECT_STREQ(index.read(picture.index, other, picture.frame), "of another file, or damaged");
  EXPECT_TRUE(index.places().empty());
}

TEST(CropIndex, IsRefusedWithAnyByteChanged) {
  Picture picture(encode({60, 40}));
  CropIndex index;
  for (std::size_t i = 0; i < picture.index.size(); ++i) {
    for (unsigned flip = 1; flip < 256; ++flip) {
      Bytes changed = picture.index;
      changed[i] ^= std::byte(flip);
      ASSERT_STRNE(index.read(changed, picture.file, picture.frame), nullptr) << i;
    }
  }
}

TEST(CropIndex, IsRefusedCutAtAnyByte) {
  Picture picture(encode({120, 90}));
  CropIndex index;
  for (std::size_t size = 0; size < picture.index.size(); ++size) {
    const Exact cut(std::span(picture.index).first(size));
    EXPECT_STRNE(index.read(cut.view(), picture.file, picture.frame), nullptr) << size;
    if (size < 9) continue;
    const Bytes good_check =
        forged({picture.index.begin(), picture.index.begin() + static_cast<std::ptrdiff_t>(size)},
               picture.file);
    EXPECT_STREQ(index.read(Exact(good_check).view(), picture.file, picture.frame),
                 "in contradiction to its picture");
  }
}

// What was made to pass the check leads to no place outside of the file, and walking from there
// stays inside of it.
TEST(CropIndex, OfAnyBytesStaysInsideOfTheFile) {
  Picture picture(encode({120, 90}));
  const Exact file(picture.file);
  SampleRandom random(7, 0, 0, 0);
  CropIndex index;
  std::size_t accepted = 0;
  for (int round = 0; round < 20'000; ++round) {
    Bytes bytes = picture.index;
    const auto changes = 1 + random.below(3);
    for (std::uint64_t i = 0; i < changes; ++i) {
      bytes[9 + random.below(bytes.size() - 9)] = std::byte(random.next() & 0xffU);
    }
    bytes = forged(bytes, picture.file);
    if (index.read(bytes, file.view(), picture.frame) != nullptr) {
      EXPECT_TRUE(index.places().empty());
      continue;
    }
    ++accepted;
    Scan scan(*entropy_kernels().back());
    ASSERT_TRUE(scan.start(file.view(), picture.frame, picture.tables));
    for (const ScanPlace& place : index.places()) {
      ASSERT_LT(place.at, picture.file.size());
      scan.start_at(place);
      static_cast<void>(scan.walk(3));
    }
  }
  EXPECT_GT(accepted, 100U);
}

TEST(CropIndex, OfRandomBytesIsRefused) {
  Picture picture(encode({120, 90}));
  SampleRandom random(8, 0, 0, 0);
  CropIndex index;
  for (int round = 0; round < 5'000; ++round) {
    Bytes bytes(9 + random.below(300));
    for (std::byte& one : bytes) one = std::byte(random.next() & 0xffU);
    bytes[0] = std::byte{1};
    ASSERT_STRNE(index.read(bytes, picture.file, picture.frame), nullptr);
    ASSERT_STRNE(index.read(forged(bytes, picture.file), picture.file, picture.frame), nullptr);
  }
}

}  // namespace
}  // namespace feedrace::jpeg
