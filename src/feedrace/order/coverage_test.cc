// SPDX-License-Identifier: Apache-2.0
// Whole epochs counted sample by sample, and 1,000 random schedules of ranks, batch sizes and
// stops.
#include "feedrace/order/coverage.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/order/test_orders.h"

namespace feedrace::order {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TEST(CheckEpoch, FindsEverySampleOnceWhateverTheSplit) {
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kWindow, Shuffle::kGlobal}) {
    const auto order = make_sample_order({whole_set(103)}, shuffle);
    const Coverage dropped = check_epoch(order, {5, 0, 4, LastBatch::kDrop}, 1, {});
    EXPECT_THAT(dropped.problems, IsEmpty());
    EXPECT_EQ(dropped.places, 100u);
    EXPECT_EQ(dropped.left_out, 3u);
    const Coverage padded = check_epoch(order, {5, 0, 4, LastBatch::kPad}, 1, {});
    EXPECT_THAT(padded.problems, IsEmpty());
    EXPECT_EQ(padded.places, 104u);
    EXPECT_EQ(padded.padded, 1u);
    EXPECT_EQ(padded.delivered, 103u);
    EXPECT_EQ(padded.left_out, 0u);
  }
}

TEST(CheckEpoch, CountsRepeatsListsAndMixes) {
  OrderedSet repeated = whole_set(20);
  repeated.repeat = 3;
  EXPECT_THAT(check_epoch(make_sample_order({repeated, whole_set(9, 20)}),
                          {4, 0, 2, LastBatch::kFill}, 2, {})
                  .problems,
              IsEmpty());
  OrderedSet listed = whole_set(0);
  listed.selection = std::make_shared<const Selection>(Selection::list({4, 4, 1, 9, 9, 9}));
  EXPECT_EQ(check_epoch(make_sample_order({listed}), {2, 0, 1, LastBatch::kDrop}, 0, {}).delivered,
            6u);
  const auto mixed = make_sample_order({whole_set(50, 0, 1), whole_set(6, 50, 2)});
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    EXPECT_THAT(check_epoch(mixed, {3, 0, 2, LastBatch::kDrop}, epoch, {}).problems, IsEmpty());
  }
}

TEST(CoverageCount, FindsWhatIsMissingTwiceOrTooMuch) {
  const auto order = make_sample_order({whole_set(10)});
  const SplitOptions split{4, 0, 1, LastBatch::kFill};
  const EpochOrder epoch(order, split, 0);
  const std::vector<Pick> right = all_picks(epoch);
  ASSERT_EQ(right.size(), 12u);
  const auto problems_of = [&](std::vector<Pick> picks) {
    CoverageCount count(*order, epoch.split(), 0);
    for (const Pick& pick : picks) count.add(pick);
    return count.finish().problems;
  };
  EXPECT_THAT(problems_of(right), IsEmpty());
  std::vector<Pick> wrong = right;
  wrong[3] = wrong[4];  // One twice, one never.
  EXPECT_THAT(problems_of(wrong), ElementsAre("2 of 10 samples of set did not come 1 times"));
  wrong = right;
  wrong.erase(wrong.begin());
  EXPECT_THAT(problems_of(wrong), SizeIs(2));
  wrong = right;
  wrong[10].is_padding = false;
  EXPECT_THAT(problems_of(wrong), SizeIs(3));
  wrong = right;
  wrong.push_back(right[10]);
  EXPECT_THAT(problems_of(wrong), ElementsAre("3 places are padding; the split says 2"));
}

TEST(CheckEpoch, TellsItsProgress) {
  const auto order = make_sample_order({whole_set(200'000)});
  std::vector<std::uint64_t> told;
  check_epoch(order, {100, 0, 1, LastBatch::kDrop}, 0,
              [&](std::uint64_t places) { told.push_back(places); });
  EXPECT_GE(told.size(), 2u);
  EXPECT_TRUE(std::is_sorted(told.begin(), told.end()));
}

/// One run of a schedule: several stretches of one epoch, each with its own number of ranks and
/// batch size, as a training that stops and goes on elsewhere.
struct Delivered {
  std::vector<std::uint64_t> positions_to_samples;  ///< In order of position; padding left out.
  std::uint64_t dropped = 0;
  std::uint64_t padded = 0;
};

Delivered run_schedule(const std::shared_ptr<const SampleOrder>& order, std::mt19937_64& random,
                       std::uint64_t epoch) {
  constexpr LastBatch kRules[] = {LastBatch::kDrop, LastBatch::kPad, LastBatch::kFill};
  Delivered delivered;
  std::uint64_t position = 0;
  const std::uint64_t end = order->epoch_samples();
  while (position < end) {
    const std::uint64_t ranks = 1 + random() % 9;
    const std::uint64_t batch_size = 1 + random() % 12;
    const LastBatch rule = kRules[random() % 3];
    std::vector<EpochOrder> split;
    for (std::uint64_t rank = 0; rank < ranks; ++rank) {
      split.emplace_back(order, SplitOptions{batch_size, rank, ranks, rule}, epoch, position);
    }
    const std::uint64_t steps = split[0].split().steps;
    if (steps == 0) {
      delivered.dropped = end - position;
      break;
    }
    const std::uint64_t stop = random() % 4 == 0 ? steps : 1 + random() % steps;
    for (std::uint64_t batch = 0; batch < stop; ++batch) {
      for (const EpochOrder& rank : split) {
        EXPECT_EQ(rank.batch_size(batch), split[0].batch_size(batch));
        for (const Pick& pick : picks_of(rank, batch)) {
          if (pick.is_padding) {
            ++delivered.padded;
          } else {
            delivered.positions_to_samples.push_back(pick.sample);
          }
        }
      }
    }
    position = split[0].position_behind(stop - 1);
    if (stop == steps) delivered.dropped = split[0].split().dropped;
  }
  return delivered;
}

TEST(Schedules, OfAnyRanksBatchesAndStopsDeliverTheSameSamplesInTheSameOrder) {
  std::mt19937_64 random(20'261'130);
  for (int schedule = 0; schedule < 1000; ++schedule) {
    const std::uint64_t count = 1 + random() % 300;
    constexpr Shuffle kShuffles[] = {Shuffle::kNone, Shuffle::kWindow, Shuffle::kGlobal};
    std::vector<OrderedSet> sets = {whole_set(count)};
    if (random() % 4 == 0) sets[0].repeat = 1 + random() % 3;
    if (random() % 4 == 0) sets.push_back(whole_set(1 + random() % 100, count));
    const auto order = make_sample_order(std::move(sets), kShuffles[random() % 3], random());
    const std::uint64_t epoch = random() % 1000;
    const std::vector<std::uint64_t> unbroken =
        samples_of(all_picks(EpochOrder(order, {1, 0, 1, LastBatch::kDrop}, epoch)));
    const Delivered delivered = run_schedule(order, random, epoch);
    ASSERT_EQ(delivered.positions_to_samples.size() + delivered.dropped, unbroken.size());
    ASSERT_TRUE(std::equal(delivered.positions_to_samples.begin(),
                           delivered.positions_to_samples.end(), unbroken.begin()))
        << "schedule " << schedule;
    // Once each, unless the set itself is repeated.
    std::map<std::uint64_t, std::uint64_t> counts;
    for (const std::uint64_t sample : unbroken) ++counts[sample];
    for (const auto& [sample, times] : counts) {
      ASSERT_EQ(times, sample < count ? order->options().sets[0].repeat : 1);
    }
  }
}

}  // namespace
}  // namespace feedrace::order
