// SPDX-License-Identifier: Apache-2.0
#include "feedrace/stats.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace feedrace {
namespace {

TEST(Path, EveryPathHasANameOfItsOwn) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kPathCount; ++i) names.insert(to_string(static_cast<Path>(i)));
  EXPECT_EQ(names.size(), kPathCount);
  EXPECT_STREQ(to_string(Path::kPageCache), "page_cache");
  EXPECT_STREQ(to_string(Path::kDirect), "direct");
  EXPECT_STREQ(to_string(Path::kMemory), "memory");
}

TEST(LatencyHistogram, SinceAnEarlierMomentIsWhatCameBetween) {
  LatencyHistogram earlier;
  for (int i = 0; i < 100; ++i) earlier.record(1'000'000);
  LatencyHistogram now = earlier;
  for (int i = 0; i < 10; ++i) now.record(50);
  const LatencyHistogram between = now.since(earlier);
  EXPECT_EQ(between.count(), 10U);
  EXPECT_EQ(between.sum_ns(), 500U);
  EXPECT_LE(between.quantile_ns(1), 54U);
  EXPECT_EQ(now.since(now).count(), 0U);
}

TEST(CopiesPerByte, IsTheMeanOverTheBytesOfAllPaths) {
  Stats stats;
  EXPECT_EQ(stats.copies_per_byte(), 0.0);
  stats.bytes_by_path[static_cast<std::size_t>(Path::kDirect)] = 3000;
  EXPECT_EQ(stats.copies_per_byte(), 0.0);
  stats.bytes_by_path[static_cast<std::size_t>(Path::kPageCache)] = 1000;
  EXPECT_EQ(stats.copies_per_byte(), 0.25);
}

TEST(LatencyHistogram, IsZeroWhenNothingWasRecorded) {
  const LatencyHistogram histogram;
  EXPECT_EQ(histogram.count(), 0U);
  EXPECT_EQ(histogram.max_ns(), 0U);
  EXPECT_EQ(histogram.quantile_ns(0.5), 0U);
}

TEST(LatencyHistogram, ASingleValueIsEveryQuantile) {
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{15}, std::uint64_t{16},
        std::uint64_t{123'456'789}, std::uint64_t{1} << 63, UINT64_MAX}) {
    LatencyHistogram histogram;
    histogram.record(value);
    for (const double q : {0.0, 0.5, 1.0}) EXPECT_EQ(histogram.quantile_ns(q), value);
  }
}

TEST(LatencyHistogram, QuantilesAreNeverBelowAndAtMost6Point25PercentAboveTheTruth) {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> values;
  LatencyHistogram histogram;
  std::uint64_t sum = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::uint64_t value = random() >> (24 + random() % 40);  // All magnitudes to 2^40.
    values.push_back(value);
    histogram.record(value);
    sum += value;
  }
  std::sort(values.begin(), values.end());
  for (const double q : {0.001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 1.0}) {
    const auto rank = static_cast<std::size_t>(std::ceil(q * 20'000)) - 1;
    const auto truth = static_cast<double>(values[rank]);
    const auto found = static_cast<double>(histogram.quantile_ns(q));
    EXPECT_GE(found, truth) << q;
    EXPECT_LE(found, truth * 1.0625) << q;
  }
  EXPECT_EQ(histogram.count(), 20'000U);
  EXPECT_EQ(histogram.sum_ns(), sum);
  EXPECT_EQ(histogram.max_ns(), values.back());
}

TEST(LatencyHistogram, QuantilesOutOfRangeAreTheEnds) {
  LatencyHistogram histogram;
  histogram.record(1);
  histogram.record(9);
  EXPECT_EQ(histogram.quantile_ns(-1), 1U);
  EXPECT_EQ(histogram.quantile_ns(2), 9U);
}

TEST(LatencyHistogram, MergingEqualsRecordingEverythingInOne) {
  LatencyHistogram one;
  LatencyHistogram other;
  LatencyHistogram both;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    (i % 3 == 0 ? one : other).record(i * i);
    both.record(i * i);
  }
  one.merge(other);
  EXPECT_EQ(one.count(), both.count());
  EXPECT_EQ(one.sum_ns(), both.sum_ns());
  EXPECT_EQ(one.max_ns(), both.max_ns());
  for (double q = 0; q <= 1; q += 0.01) EXPECT_EQ(one.quantile_ns(q), both.quantile_ns(q));
}

}  // namespace
}  // namespace feedrace
