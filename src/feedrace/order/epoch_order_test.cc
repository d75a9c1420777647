// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/epoch_order.h"

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"
#include "feedrace/order/test_orders.h"

namespace feedrace::order {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr LastBatch kRules[] = {LastBatch::kDrop, LastBatch::kPad, LastBatch::kPartial,
                                LastBatch::kFill};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

struct SplitCase {
  std::uint64_t samples, batch, ranks;
  LastBatch rule;
  std::uint64_t steps, a_rank, last, dropped, padded;
};

TEST(MakeSplit, GivesEveryRankTheSame) {
  const SplitCase cases[] = {
      {103, 10, 1, LastBatch::kDrop, 10, 100, 10, 3, 0},
      {103, 10, 1, LastBatch::kPad, 11, 103, 3, 0, 0},
      {103, 10, 1, LastBatch::kPartial, 11, 103, 3, 0, 0},
      {103, 10, 1, LastBatch::kFill, 11, 110, 10, 0, 7},
      {32, 5, 2, LastBatch::kDrop, 3, 15, 5, 2, 0},
      {32, 5, 2, LastBatch::kPad, 4, 16, 1, 0, 0},
      {32, 5, 2, LastBatch::kPartial, 4, 16, 1, 0, 0},
      {10, 2, 4, LastBatch::kDrop, 1, 2, 2, 2, 0},
      {10, 2, 4, LastBatch::kPad, 2, 3, 1, 0, 2},
      {10, 2, 4, LastBatch::kFill, 2, 4, 2, 0, 6},
      {10, 1, 16, LastBatch::kPad, 1, 1, 1, 0, 6},
      {23, 4, 3, LastBatch::kDrop, 1, 4, 4, 11, 0},
      {23, 4, 3, LastBatch::kPad, 2, 8, 4, 0, 1},
      {24, 4, 3, LastBatch::kPartial, 2, 8, 4, 0, 0},
      {7, 16, 1, LastBatch::kDrop, 0, 0, 0, 7, 0},
  };
  for (const SplitCase& c : cases) {
    const Split split = make_split({c.batch, 0, c.ranks, c.rule}, c.samples);
    const std::string name = std::to_string(c.samples) + " samples, " + std::to_string(c.ranks) +
                             " ranks, " + to_string(c.rule);
    EXPECT_EQ(split.steps, c.steps) << name;
    EXPECT_EQ(split.samples_a_rank, c.a_rank) << name;
    EXPECT_EQ(split.last_batch_size, c.last) << name;
    EXPECT_EQ(split.dropped, c.dropped) << name;
    EXPECT_EQ(split.padded, c.padded) << name;
  }
}

TEST(MakeSplit, RefusesALastBatchThatRanksCannotShare) {
  EXPECT_THAT(refusal([] { make_split({4, 0, 3, LastBatch::kPartial}, 23); }),
              AllOf(HasSubstr("11 samples"), HasSubstr("3 ranks"), HasSubstr("repeats 1"),
                    HasSubstr("last_batch=pad")));
  EXPECT_THAT(refusal([] { make_split({0, 0, 1, LastBatch::kDrop}, 9); }), HasSubstr("batch_size"));
  EXPECT_THAT(refusal([] { make_split({1, 3, 3, LastBatch::kDrop}, 9); }), HasSubstr("rank is 3"));
  EXPECT_THAT(refusal([] { make_split({1, 0, 0, LastBatch::kDrop}, 9); }),
              HasSubstr("world_size is 0"));
  EXPECT_THAT(
      refusal([] { make_split({1u << 20, 0, std::uint64_t{1} << 50, LastBatch::kPad}, 9); }),
      HasSubstr("2^62"));
}

TEST(RequireBatches, SaysWhatWouldGiveOne) {
  EXPECT_THAT(refusal([] { require_batches({64, 0, 2, LastBatch::kDrop}, 100); }),
              AllOf(HasSubstr("100 samples"), HasSubstr("2 ranks with batches of 64"),
                    HasSubstr("last_batch=\"pad\""), HasSubstr("shuffle=False")));
  EXPECT_THAT(refusal([] { require_batches({64, 0, 1, LastBatch::kDrop}, 47); }),
              AllOf(HasSubstr("47 samples"), HasSubstr("batch_size 47 or less"),
                    HasSubstr("last_batch=\"partial\""), HasSubstr("shuffle=False")));
  EXPECT_THAT(refusal([] { require_batches({1, 0, 16, LastBatch::kPartial}, 10); }),
              HasSubstr("16 ranks"));
  EXPECT_THAT(refusal([] { require_batches({1, 0, 1, LastBatch::kPad}, 0); }),
              HasSubstr("0 samples"));
  EXPECT_NO_THROW(require_batches({1, 0, 16, LastBatch::kPad}, 10));
}

TEST(EpochOrder, RanksTogetherGiveTheGlobalBatchOfOneRank) {
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kWindow, Shuffle::kGlobal}) {
    for (const LastBatch rule : kRules) {
      const auto order = make_sample_order({whole_set(24 * 4 + 8)}, shuffle);
      const EpochOrder alone(order, {24, 0, 1, rule}, 5);
      for (const std::uint64_t ranks : {2, 3, 4, 8}) {
        std::vector<EpochOrder> split;
        for (std::uint64_t rank = 0; rank < ranks; ++rank) {
          // Eight samples are left over, which three ranks pad.
          if (rule == LastBatch::kPartial && ranks == 3) break;
          split.emplace_back(order, SplitOptions{24 / ranks, rank, ranks, rule}, 5);
        }
        for (std::uint64_t batch = 0; !split.empty() && batch < alone.split().steps; ++batch) {
          std::vector<Pick> together;
          for (const EpochOrder& rank : split) {
            for (const Pick& pick : picks_of(rank, batch)) together.push_back(pick);
          }
          const std::vector<Pick> expected = picks_of(alone, batch);
          ASSERT_GE(together.size(), expected.size());
          for (std::size_t i = 0; i < expected.size(); ++i) {
            EXPECT_EQ(together[i].sample, expected[i].sample);
            EXPECT_EQ(together[i].draw, expected[i].draw);
            EXPECT_EQ(together[i].is_padding, expected[i].is_padding);
          }
          for (std::size_t i = expected.size(); i < together.size(); ++i) {
            EXPECT_TRUE(together[i].is_padding);
          }
        }
      }
    }
  }
}

TEST(EpochOrder, GoesOnFromAnyPositionAsIfItHadNotStopped) {
  for (const Shuffle shuffle : {Shuffle::kNone, Shuffle::kWindow, Shuffle::kGlobal}) {
    const auto order = make_sample_order({whole_set(50)}, shuffle);
    const std::vector<Pick> whole = all_picks(EpochOrder(order, {1, 0, 1, LastBatch::kPartial}, 2));
    for (std::uint64_t start = 0; start < 50; ++start) {
      const EpochOrder rest(order, {7, 0, 1, LastBatch::kPartial}, 2, start);
      std::vector<std::uint64_t> joined = samples_of(whole);
      joined.resize(start);
      for (const Pick& pick : all_picks(rest)) joined.push_back(pick.sample);
      EXPECT_EQ(joined, samples_of(whole)) << start;
      EXPECT_EQ(rest.position_of(0), start);
      EXPECT_EQ(rest.position_behind(rest.split().steps - 1), 50u);
      EXPECT_EQ(rest.step_of(0), start / 7);
    }
  }
}

TEST(EpochOrder, PadRepeatsTheEpochFromItsStartAndSaysSo) {
  const auto order = make_sample_order({whole_set(7)});
  const EpochOrder filled(order, {16, 0, 1, LastBatch::kFill}, 0);
  const std::vector<Pick> picks = all_picks(filled);
  ASSERT_EQ(picks.size(), 16u);
  for (std::size_t i = 0; i < picks.size(); ++i) {
    EXPECT_EQ(picks[i].is_padding, i >= 7);
    EXPECT_EQ(picks[i].sample, picks[i % 7].sample);
  }
}

TEST(EpochOrder, WithoutShuffleKeepsTheStoredOrder) {
  const EpochOrder order(make_sample_order({whole_set(5)}, Shuffle::kNone),
                         {5, 0, 1, LastBatch::kDrop}, 9);
  for (std::uint64_t i = 0; i < 5; ++i) EXPECT_EQ(order.pick(0, i).sample, i);
}

TEST(EpochOrder, SaysTheSameOnEveryMachineAndVersion) {
  // Part of what a seed means: a change here breaks every saved position.
  OrderOptions options;
  options.sets = {whole_set(1000, 0, 0.25), whole_set(300, 1000, 0.75)};
  options.shuffle = {Shuffle::kGlobal, 64, 4096, 7};
  const auto order = std::make_shared<const SampleOrder>(options);
  const EpochOrder epoch(order, {4, 1, 2, LastBatch::kDrop}, 3);
  EXPECT_EQ(samples_of(picks_of(epoch, 2)), (std::vector<std::uint64_t>{1215, 1186, 1233, 676}));
}

TEST(SampleOrder, ARepeatedSampleIsDrawnAnewEachTime) {
  OrderedSet set = whole_set(3);
  set.repeat = 4;
  const EpochOrder repeated(make_sample_order({set}), {12, 0, 1, LastBatch::kDrop}, 2);
  std::set<std::pair<std::uint64_t, std::uint64_t>> draws;
  for (const Pick& pick : picks_of(repeated, 0)) draws.emplace(pick.sample, pick.draw);
  EXPECT_EQ(draws.size(), 12u);

  set.repeat = 1;
  set.selection = std::make_shared<const Selection>(Selection::list({5, 5, 5, 2}));
  const EpochOrder listed(make_sample_order({set}), {4, 0, 1, LastBatch::kDrop}, 2);
  draws.clear();
  for (const Pick& pick : picks_of(listed, 0)) draws.emplace(pick.sample, pick.draw);
  EXPECT_EQ(draws.size(), 4u);
}

TEST(SampleOrder, OfOneWholeSetDrawsByItsEpoch) {
  const EpochOrder order(make_sample_order({whole_set(10)}), {10, 0, 1, LastBatch::kDrop}, 6);
  for (const Pick& pick : picks_of(order, 0)) EXPECT_EQ(pick.draw, 6u);
}

TEST(SampleOrder, SubstituteIsAnotherMemberOfTheSameSetAndAlwaysTheSameOne) {
  OrderedSet second = whole_set(0, 100);
  second.selection = std::make_shared<const Selection>(Selection::mask({0x3ff0}));  // 4 to 13.
  const auto order = make_sample_order({whole_set(100), second});
  Pick bad;
  bad.set = 1;
  bad.member = 3;
  bad.sample = 107;
  bad.draw = 4;
  std::set<std::uint64_t> chosen;
  for (std::uint32_t attempt = 0; attempt < 200; ++attempt) {
    const Pick pick = order->substitute(bad, attempt);
    EXPECT_GE(pick.sample, 104u);
    EXPECT_LE(pick.sample, 113u);
    EXPECT_NE(pick.sample, 107u);
    EXPECT_EQ(pick.sample, order->substitute(bad, attempt).sample);
    EXPECT_EQ(pick.draw, 4u);
    chosen.insert(pick.sample);
  }
  EXPECT_EQ(chosen.size(), 9u);  // Every other member can stand in.
  const auto lonely = make_sample_order({whole_set(1)});
  EXPECT_EQ(lonely->substitute(Pick{}, 3).sample, 0u);
}

TEST(SampleOrder, DescribesItself) {
  EXPECT_EQ(make_sample_order({whole_set(3)})->describe(), "global shuffle, seed 11");
  EXPECT_EQ(make_sample_order({whole_set(3)}, Shuffle::kNone)->describe(), "as stored");
  EXPECT_EQ(make_sample_order({whole_set(3)}, Shuffle::kWindow)->describe(),
            "window shuffle (20 samples in chunks of 4), seed 11");
  EXPECT_THAT(make_sample_order({whole_set(3, 0, 0.5), whole_set(3, 3, 2)})->describe(),
              HasSubstr("mixed by weight: set 0.5, set 2"));
}

}  // namespace
}  // namespace feedrace::order
