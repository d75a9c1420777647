// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/set_walk.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"

namespace feedrace::order {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal(const std::vector<WalkedSet>& sets, std::uint64_t epoch_samples = 0) {
  try {
    const SetWalk walk(sets, epoch_samples, {});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(SetWalk, OneSetIsWalkedOnceAnEpoch) {
  const SetWalk walk({{5, 1, 0}}, 0, {});
  EXPECT_EQ(walk.epoch_samples(), 5u);
  const Turn turn = walk.at(3, 4);
  EXPECT_EQ(turn.set, 0u);
  EXPECT_EQ(turn.pass, 3u);
  EXPECT_EQ(turn.place, 4u);
}

TEST(SetWalk, SetsWithoutWeightsComeOneAfterAnother) {
  const SetWalk walk({{3, 2, 0}, {2, 1, 0}}, 0, {});
  EXPECT_EQ(walk.epoch_samples(), 8u);
  std::vector<std::tuple<std::size_t, std::uint64_t, std::uint64_t>> turns;
  for (std::uint64_t p = 0; p < 8; ++p) {
    const Turn turn = walk.at(1, p);
    turns.emplace_back(turn.set, turn.pass, turn.place);
  }
  using T = std::tuple<std::size_t, std::uint64_t, std::uint64_t>;
  EXPECT_THAT(turns, ElementsAre(T{0, 2, 0}, T{0, 2, 1}, T{0, 2, 2}, T{0, 3, 0}, T{0, 3, 1},
                                 T{0, 3, 2}, T{1, 1, 0}, T{1, 1, 1}));
  EXPECT_THAT(walk.set_positions(1, 7), ElementsAre(12u, 3u));
  EXPECT_THAT(walk.set_positions(1, 0), ElementsAre(6u, 2u));
  EXPECT_THAT(walk.set_positions(1, 8), ElementsAre(12u, 4u));
}

TEST(SetWalk, WeightsShareAnyStretchAsEvenlyAsTheyCan) {
  const std::vector<WalkedSet> sets = {{1000, 1, 5}, {70, 1, 3}, {400, 1, 2}};
  const SetWalk walk(sets, 0, {});
  EXPECT_EQ(walk.epoch_samples(), 1470u);
  std::vector<double> counts(3);
  for (std::uint64_t p = 0; p < 1470; ++p) {
    ++counts[walk.at(0, p).set];
    for (std::size_t set = 0; set < 3; ++set) {
      const double share = sets[set].weight / 10 * static_cast<double>(p + 1);
      ASSERT_LT(std::abs(counts[set] - share), 2) << p;
    }
  }
}

TEST(SetWalk, AWeightedSetGoesOnInTheNextEpochWhereItStopped) {
  const SetWalk walk({{10, 1, 1}, {7, 1, 2}}, 11, {});
  std::map<std::size_t, std::uint64_t> next;
  for (std::uint64_t epoch = 0; epoch < 50; ++epoch) {
    EXPECT_THAT(walk.set_positions(epoch, 0), ElementsAre(next[0], next[1]));
    for (std::uint64_t p = 0; p < 11; ++p) {
      const Turn turn = walk.at(epoch, p);
      const std::uint64_t count = walk.sets()[turn.set].member_count;
      ASSERT_EQ(turn.pass * count + turn.place, next[turn.set]++);
      ASSERT_THAT(walk.set_positions(epoch, p + 1), ElementsAre(next[0], next[1]));
    }
  }
  EXPECT_EQ(next[0] + next[1], 550u);
  EXPECT_NEAR(static_cast<double>(next[1]), 550.0 * 2 / 3, 1);
}

TEST(SetWalk, AChangeOfWeightsLetsEachSetGoOnFromItsOwnPosition) {
  const SetWalk before({{10, 1, 1}, {7, 1, 1}}, 20, {});
  const auto positions = before.set_positions(3, 6);
  const SetWalk after({{10, 1, 1}, {7, 1, 9}}, 20, {3, 6, positions});
  EXPECT_EQ(after.set_positions(3, 6), positions);
  std::vector<std::uint64_t> next = positions;
  std::uint64_t of_second = 0;
  for (std::uint64_t i = 6; i < 60; ++i) {
    const Turn turn = after.at(3 + i / 20, i % 20);
    const std::uint64_t count = after.sets()[turn.set].member_count;
    ASSERT_EQ(turn.pass * count + turn.place, next[turn.set]++);
    of_second += turn.set;
  }
  EXPECT_NEAR(static_cast<double>(of_second), 54 * 0.9, 1);
  EXPECT_NO_THROW(after.check(3, 6));
  EXPECT_THROW(after.check(3, 5), Error);
  EXPECT_THROW(after.check(2, 19), Error);
}

TEST(SetWalk, CountsExactlyFarOut) {
  constexpr std::uint64_t kBig = std::uint64_t{1} << 61;
  const SetWalk walk({{kBig, 1, 0.3}, {kBig - 5, 1, 0.7}}, 0, {});
  for (const std::uint64_t p : {std::uint64_t{0}, kBig, walk.epoch_samples() - 1000}) {
    std::vector<std::uint64_t> next = walk.set_positions(0, p);
    EXPECT_EQ(next[0] + next[1], p);
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const Turn turn = walk.at(0, p + i);
      const std::uint64_t count = walk.sets()[turn.set].member_count;
      ASSERT_EQ(turn.pass * count + turn.place, next[turn.set]++);
    }
  }
  const SetWalk largest({{std::uint64_t{1} << 63, 1, 0}}, 0, {});
  EXPECT_EQ(largest.at(5, (std::uint64_t{1} << 63) - 1).place, (std::uint64_t{1} << 63) - 1);
}

TEST(SetWalk, RefusesWhatGivesNoOrder) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(refusal({}), HasSubstr("no data set"));
  EXPECT_THAT(refusal({{0, 1, 0}}), HasSubstr("0 samples"));
  EXPECT_THAT(refusal({{5, 0, 0}}), HasSubstr("repeat of set 0 is 0"));
  EXPECT_THAT(refusal({{5, 1, 1}, {5, 1, 0}}), HasSubstr("set 1 has no weight"));
  EXPECT_THAT(refusal({{5, 1, -1}}), HasSubstr("-1"));
  EXPECT_THAT(refusal({{5, 1, kNan}}), HasSubstr("nan"));
  EXPECT_THAT(refusal({{5, 1, 1e308}, {5, 1, 1e308}}), HasSubstr("scale them down"));
  EXPECT_THAT(refusal({{5, 2, 1}}), HasSubstr("beside a weight"));
  EXPECT_THAT(refusal({{5, 1, 1}, {5, 1, 1e-12}}), HasSubstr("leave the set out"));
  EXPECT_THAT(refusal({{std::uint64_t{1} << 62, 3, 0}}), HasSubstr("2^62"));
  EXPECT_THAT(refusal({{5, 1, 0}}, 7), HasSubstr("epoch_samples is 7"));
  EXPECT_THAT(refusal({{5, 1, 1}}, ~std::uint64_t{0}), HasSubstr("2^62"));
}

TEST(SetWalk, RefusesEpochsAndPositionsThatDoNotExist) {
  const SetWalk walk({{5, 1, 0}}, 0, {});
  EXPECT_NO_THROW(walk.check((std::uint64_t{1} << 40) - 1, 4));
  EXPECT_THROW(walk.check(std::uint64_t{1} << 40, 0), Error);
  EXPECT_THROW(walk.check(0, 5), Error);
  try {
    walk.check(static_cast<std::uint64_t>(-1), 0);
    FAIL() << "an epoch of -1 was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("(-1)"));
  }
  const SetWalk weighted({{5, 1, 1}}, std::uint64_t{1} << 60, {});
  EXPECT_NO_THROW(weighted.check(7, 0));
  EXPECT_THROW(weighted.check(8, 0), Error);
  EXPECT_THROW(SetWalk({{5, 1, 1}, {5, 1, 1}}, 0, {1, 0, {3}}), Error);
}

}  // namespace
}  // namespace feedrace::order
