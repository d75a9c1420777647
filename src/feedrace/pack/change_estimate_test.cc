// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/change_estimate.h"

#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/decode/test_pictures.h"

namespace feedrace::pack {
namespace {

using ::testing::HasSubstr;

const PictureChange kDecode{.raw = RawOptions{}};

/// A set of pictures of one size, and the numbers that were asked for.
struct Set {
  std::set<std::uint64_t> asked;
  std::string jpeg;

  Set() {
    const auto bytes = decode::testing::make_jpeg(decode::testing::make_pixels(100, 60));
    jpeg.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  ReadPicture reader() {
    return [this](std::uint64_t number) -> Result<StoredPicture> {
      EXPECT_TRUE(asked.insert(number).second) << number;
      if (number % 5 == 3) return Failure{ErrorCode::kIo, "gone"};
      return StoredPicture{jpeg, {}};
    };
  }
};

TEST(ChangeEstimate, CountsBytesAndMeasuresBothWays) {
  Set set;
  const ChangeEstimate estimate = estimate_change(kDecode, 1000, set.reader(), 40, 7);
  EXPECT_EQ(estimate.looked_at, 40U);
  EXPECT_EQ(set.asked.size(), 40U);
  EXPECT_GT(estimate.failed, 0U);
  EXPECT_EQ(estimate.first_failure, "gone");
  EXPECT_EQ(estimate.now_bytes, static_cast<double>(set.jpeg.size()));
  EXPECT_EQ(estimate.changed_bytes, 128 + 100 * 60 * 3);
  EXPECT_EQ(estimate.changed_bytes_error, 0);
  EXPECT_EQ(estimate.set_bytes(), 18'128'000U);
  EXPECT_GT(estimate.now_per_second, 0);
  EXPECT_GT(estimate.changed_per_second, 0);
  EXPECT_THAT(estimate.to_text(),
              HasSubstr("changed they take 18.1 kB each (+- 0.0 %), 18.1 MB in all"));
}

TEST(ChangeEstimate, TheSameSeedLooksAtTheSamePictures) {
  Set first;
  Set second;
  Set other;
  estimate_change(kDecode, 1'000'000, first.reader(), 10, 7);
  estimate_change(kDecode, 1'000'000, second.reader(), 10, 7);
  estimate_change(kDecode, 1'000'000, other.reader(), 10, 8);
  EXPECT_EQ(first.asked, second.asked);
  EXPECT_NE(first.asked, other.asked);
}

TEST(ChangeEstimate, OfASmallSetAllAreLookedAt) {
  Set set;
  const ChangeEstimate estimate = estimate_change(kDecode, 3, set.reader());
  EXPECT_EQ(estimate.looked_at, 3U);
  EXPECT_EQ(estimate.failed, 0U);
}

TEST(ChangeEstimate, SaysWhenNothingCanBeDecoded) {
  const auto broken = [](std::uint64_t) -> Result<StoredPicture> {
    return StoredPicture{"no picture at all", {}};
  };
  const ChangeEstimate estimate = estimate_change(kDecode, 100, broken, 4);
  EXPECT_EQ(estimate.failed, 4U);
  EXPECT_EQ(estimate.speed_ratio(), 0);
  EXPECT_THAT(estimate.to_text(),
              HasSubstr("4 of 100 pictures looked at, 4 of them can't be changed (the first: "));
  EXPECT_EQ(estimate_change(kDecode, 0, broken).looked_at, 0U);
}

TEST(ChangeEstimate, ItsErrorIsThatOfTheMean) {
  // Half of the pictures have twice the rows: sizes of +- 9,000 bytes around the mean.
  const auto bytes_of = [](std::uint32_t height_px) {
    const auto bytes = decode::testing::make_jpeg(decode::testing::make_pixels(100, height_px));
    return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  };
  const std::string low = bytes_of(60);
  const std::string high = bytes_of(120);
  const ChangeEstimate estimate = estimate_change(
      kDecode, 1'000'000,
      [&](std::uint64_t number) -> Result<StoredPicture> {
        return StoredPicture{number % 2 == 0 ? low : high, {}};
      },
      64, 1);
  EXPECT_NEAR(estimate.changed_bytes_error, 2 * 9000 / 8.0, 150);
  EXPECT_NEAR(estimate.changed_bytes, 128 + 27'000, 2 * estimate.changed_bytes_error);
}

}  // namespace
}  // namespace feedrace::pack
