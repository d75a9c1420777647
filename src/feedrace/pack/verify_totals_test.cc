// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/verify_totals.h"

#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace::pack {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SpreadCounter, GivesTheMedianToWithinOnePercent) {
  std::vector<std::uint64_t> values;
  SpreadCounter counter;
  std::uint64_t value = 1;
  for (int i = 0; i < 2001; ++i) {
    value = value * 6364136223846793005U + 1442695040888963407U;
    values.push_back(value >> (i % 60));
    counter.add(values.back());
  }
  std::sort(values.begin(), values.end());
  const VerifyReport::Spread spread = counter.spread();
  EXPECT_EQ(spread.count, 2001u);
  EXPECT_EQ(spread.smallest, values.front());
  EXPECT_EQ(spread.largest, values.back());
  const auto median = static_cast<double>(values[1000]);
  EXPECT_LE(static_cast<double>(spread.median), median);
  EXPECT_GE(static_cast<double>(spread.median), 0.99 * median);
}

TEST(SpreadCounter, SmallValuesAndTheLargestAreExact) {
  SpreadCounter counter;
  for (const std::uint64_t value : {std::uint64_t{3}, std::uint64_t{100}, ~std::uint64_t{0}}) {
    counter.add(value);
  }
  EXPECT_EQ(counter.spread().smallest, 3u);
  EXPECT_EQ(counter.spread().median, 100u);
  EXPECT_EQ(counter.spread().largest, ~std::uint64_t{0});
}

TEST(SpreadCounter, PartsAddUp) {
  SpreadCounter whole;
  SpreadCounter even;
  SpreadCounter odd;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    whole.add(i * i);
    (i % 2 == 0 ? even : odd).add(i * i);
  }
  SpreadCounter both;
  both.merge(even);
  both.merge(SpreadCounter());
  both.merge(odd);
  EXPECT_EQ(both.spread().median, whole.spread().median);
  EXPECT_EQ(both.spread().sum, whole.spread().sum);
  EXPECT_EQ(both.spread().count, 1000u);
}

TEST(ClassCounter, NamesSmallestLargestAndEmptyClasses) {
  ClassCounter counter;
  counter.add(1, 5);
  counter.add(4, 2);
  counter.add(6, 2);
  counter.add(-1, 9);
  const VerifyReport::Classes classes = counter.classes(0);
  EXPECT_EQ(classes.count, 4u);
  EXPECT_EQ(classes.smallest.label, 4);
  EXPECT_EQ(classes.smallest.sample_count, 2u);
  EXPECT_EQ(classes.largest.label, -1);
  EXPECT_EQ(classes.empty_count, 4u);
  EXPECT_THAT(classes.first_empty, ElementsAre(0, 2, 3, 5));
}

TEST(ClassCounter, ClassesBehindTheLastSampleAreEmptyWhereTheirNumberIsKnown) {
  ClassCounter counter;
  counter.add(1);
  EXPECT_THAT(counter.classes(4).first_empty, ElementsAre(0, 2, 3));
  EXPECT_EQ(counter.classes(30).empty_count, 29u);
  EXPECT_EQ(counter.classes(30).first_empty.size(), 10u);
}

TEST(ClassCounter, HugeLabelsAreNoCountOfClasses) {
  ClassCounter counter;
  counter.add(1'000'000'000'000);
  EXPECT_EQ(counter.classes(0).empty_count, 0u);
  EXPECT_THAT(counter.classes(0).first_empty, IsEmpty());
}

TEST(ClassCounter, AMillionDifferentLabelsAreNoClasses) {
  ClassCounter counter;
  const auto most = static_cast<std::int64_t>(ClassCounter::kMaxClasses);
  for (std::int64_t i = 0; i < most; ++i) counter.add(i);
  EXPECT_TRUE(counter.classes(0).is_known);
  ClassCounter other;
  other.add(-5);
  counter.merge(other);
  EXPECT_FALSE(counter.classes(0).is_known);
  EXPECT_FALSE(counter.empty());
}

}  // namespace
}  // namespace feedrace::pack
