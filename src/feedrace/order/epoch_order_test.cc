// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/epoch_order.h"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"

namespace feedrace::order {
namespace {

using ::testing::HasSubstr;

OrderOptions options(std::uint64_t samples, std::uint64_t batch, LastBatchRule rule,
                     bool shuffle = true) {
  return {samples, batch, rule, shuffle, /*seed=*/11};
}

std::vector<Pick> all_picks(const EpochOrder& order) {
  std::vector<Pick> picks;
  for (std::uint64_t step = 0; step < order.plan().steps; ++step) {
    for (std::uint64_t i = 0; i < order.batch_size(step); ++i) picks.push_back(order.pick(step, i));
  }
  return picks;
}

TEST(EpochOrder, PartialDeliversEachSampleOnce) {
  const EpochOrder order(options(103, 10, LastBatchRule::kPartial), 2);
  EXPECT_EQ(order.plan().steps, 11u);
  EXPECT_EQ(order.batch_size(10), 3u);
  std::set<std::uint64_t> seen;
  for (const Pick& pick : all_picks(order)) {
    EXPECT_FALSE(pick.is_padding);
    EXPECT_TRUE(seen.insert(pick.sample).second);
  }
  EXPECT_EQ(seen.size(), 103u);
}

TEST(EpochOrder, DropLeavesOutWhatDoesNotFillABatch) {
  const EpochOrder order(options(103, 10, LastBatchRule::kDrop), 0);
  EXPECT_EQ(order.plan().steps, 10u);
  EXPECT_EQ(order.plan().dropped, 3u);
  EXPECT_EQ(all_picks(order).size(), 100u);
}

TEST(EpochOrder, PadRepeatsTheEpochFromItsStartAndSaysSo) {
  const EpochOrder order(options(7, 16, LastBatchRule::kPad), 0);
  const std::vector<Pick> picks = all_picks(order);
  ASSERT_EQ(picks.size(), 16u);
  EXPECT_EQ(order.plan().padded, 9u);
  for (std::size_t i = 0; i < picks.size(); ++i) {
    EXPECT_EQ(picks[i].is_padding, i >= 7);
    EXPECT_EQ(picks[i].sample, picks[i % 7].sample);
  }
}

TEST(EpochOrder, WithoutShuffleKeepsTheStoredOrder) {
  const EpochOrder order(options(5, 5, LastBatchRule::kDrop, /*shuffle=*/false), 9);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(order.pick(0, i).sample, i);
}

TEST(EpochOrder, SubstituteIsAnotherSampleAndAlwaysTheSameOne) {
  const EpochOrder order(options(10, 2, LastBatchRule::kDrop), 1);
  std::set<std::uint64_t> chosen;
  for (std::uint32_t attempt = 0; attempt < 200; ++attempt) {
    const std::uint64_t sample = order.substitute(4, attempt);
    EXPECT_LT(sample, 10u);
    EXPECT_NE(sample, 4u);
    EXPECT_EQ(sample, order.substitute(4, attempt));
    chosen.insert(sample);
  }
  EXPECT_EQ(chosen.size(), 9u);  // Every other sample can stand in.
}

TEST(EpochOrder, RefusesWhatWouldGiveNoBatch) {
  try {
    plan_epoch(options(7, 64, LastBatchRule::kDrop));
    FAIL() << "a set of 7 gave a full batch of 64";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("7 samples"));
    EXPECT_THAT(error.what(), HasSubstr("64"));
    EXPECT_THAT(error.what(), HasSubstr("last_batch=partial"));
  }
  EXPECT_THROW(plan_epoch(options(0, 4, LastBatchRule::kPartial)), Error);
  EXPECT_THROW(plan_epoch(options(4, 0, LastBatchRule::kPartial)), Error);
}

}  // namespace
}  // namespace feedrace::order
