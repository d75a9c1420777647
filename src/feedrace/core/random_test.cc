// SPDX-License-Identifier: Apache-2.0
#include "feedrace/random.h"

#include <array>
#include <cstdint>
#include <set>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace {
namespace {

using ::testing::ElementsAre;

// The vectors that Random123, the authors' own library, publishes for philox4x32 with ten rounds.
TEST(Philox, GivesTheKnownAnswers) {
  EXPECT_THAT(philox({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5U, 0xe169c58dU, 0xbc57ac4cU, 0x9b00dbd8U));
  EXPECT_THAT(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
              ElementsAre(0x408f276dU, 0x41c83b0eU, 0xa20bc7c6U, 0x6d5451fdU));
  EXPECT_THAT(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
              ElementsAre(0xd16cfe09U, 0x94fdccebU, 0x5001e420U, 0x24126ea1U));
}

std::vector<std::uint32_t> first_numbers(SampleRandom random, std::size_t count = 9) {
  std::vector<std::uint32_t> numbers;
  while (numbers.size() < count) numbers.push_back(random.next());
  return numbers;
}

TEST(SampleRandom, GivesTheSameNumbersForTheSameArguments) {
  EXPECT_EQ(first_numbers({1, 2, 3, 4}), first_numbers({1, 2, 3, 4}));
}

TEST(SampleRandom, GivesOtherNumbersWhenAnyArgumentDiffersInAnyHalf) {
  constexpr std::uint64_t kHigh = std::uint64_t{1} << 40;
  std::set<std::vector<std::uint32_t>> all;
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1}, kHigh}) {
    for (const std::uint64_t epoch : {std::uint64_t{0}, std::uint64_t{1}, kHigh}) {
      for (const std::uint64_t sample : {std::uint64_t{0}, std::uint64_t{1}, kHigh}) {
        for (const std::uint32_t op : {0U, 1U}) {
          all.insert(first_numbers({seed, epoch, sample, op}));
        }
      }
    }
  }
  EXPECT_EQ(all.size(), 3U * 3 * 3 * 2);
}

// These numbers are part of what a stored seed means: a change makes old runs irreproducible.
TEST(SampleRandom, KeepsItsSequenceForGood) {
  const auto key = philox({5, 0, 0, 0}, {7, 0});
  const auto first = philox({11, 0, 0, 2}, {key[0], key[1]});
  const auto second = philox({11, 0, 1, 2}, {key[0], key[1]});
  EXPECT_THAT(first_numbers({7, 5, 11, 2}, 8),
              ElementsAre(first[0], first[1], first[2], first[3], second[0], second[1], second[2],
                          second[3]));
}

TEST(SampleRandom, UniformIsAtLeast0AndBelow1AndEven) {
  SampleRandom random(1, 0, 0, 0);
  std::array<int, 10> tenths{};
  double sum = 0;
  for (int i = 0; i < 100'000; ++i) {
    const double value = random.uniform();
    ASSERT_GE(value, 0.0);
    ASSERT_LT(value, 1.0);
    ++tenths[static_cast<std::size_t>(value * 10)];
    sum += value;
  }
  EXPECT_NEAR(sum / 100'000, 0.5, 0.005);  // Five standard deviations.
  for (const int count : tenths) EXPECT_NEAR(count, 10'000, 500);
}

TEST(SampleRandom, UniformOfARangeStaysInIt) {
  SampleRandom random(1, 0, 0, 0);
  for (int i = 0; i < 1000; ++i) {
    const double value = random.uniform(-3.0, 5.0);
    ASSERT_GE(value, -3.0);
    ASSERT_LT(value, 5.0);
  }
}

TEST(SampleRandom, BelowReachesEveryValueEquallyOften) {
  SampleRandom random(2, 0, 0, 0);
  std::array<int, 7> counts{};
  for (int i = 0; i < 70'000; ++i) ++counts[random.below(7)];
  for (const int count : counts) EXPECT_NEAR(count, 10'000, 500);
}

TEST(SampleRandom, BelowKnowsTheSmallestAndTheLargestBound) {
  SampleRandom random(3, 0, 0, 0);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(random.below(1), 0U);
    EXPECT_LT(random.below(UINT64_MAX), UINT64_MAX);
  }
}

TEST(SampleRandom, BelowIsNotBiasedWhereTheBoundDoesNotDivideTheRange) {
  // Of 3/4 of the range, plain `value % bound` would give the lower third twice as often.
  constexpr std::uint64_t kBound = std::uint64_t{3} << 62;
  SampleRandom random(4, 0, 0, 0);
  int lower_third = 0;
  for (int i = 0; i < 30'000; ++i) lower_third += random.below(kBound) < kBound / 3 ? 1 : 0;
  EXPECT_NEAR(lower_third, 10'000, 410);  // Five standard deviations.
}

}  // namespace
}  // namespace feedrace
