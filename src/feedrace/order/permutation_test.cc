// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/permutation.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace feedrace::order {
namespace {

TEST(Permutation, GivesEachNumberOnceForAnySize) {
  for (const std::uint64_t n : {1, 2, 3, 7, 64, 100, 4095, 4096, 4097, 10'000, 65'537}) {
    const Permutation permutation(n, /*seed=*/5, /*epoch=*/1);
    std::vector<bool> seen(n);
    for (std::uint64_t position = 0; position < n; ++position) {
      const std::uint64_t sample = permutation(position);
      ASSERT_LT(sample, n);
      ASSERT_FALSE(seen[sample]) << n << " at " << position;
      seen[sample] = true;
    }
  }
}

TEST(Permutation, StaysInsideTheLargestSizesAndDoesNotRepeat) {
  for (const std::uint64_t n :
       {std::uint64_t{1} << 63, (std::uint64_t{1} << 62) + 1, std::uint64_t{10'000'000'000'000}}) {
    const Permutation permutation(n, 1, 2);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 10'000; ++i) {
      const std::uint64_t sample = permutation(n - 1 - i);
      ASSERT_LT(sample, n);
      ASSERT_TRUE(seen.insert(sample).second);
    }
  }
}

TEST(Permutation, InverseLeadsBack) {
  for (const std::uint64_t n : {1, 2, 3, 100, 4095, 4096, 4097, 8192, 10'000}) {
    const Permutation permutation(n, 9, 2);
    for (std::uint64_t position = 0; position < n; ++position) {
      ASSERT_EQ(permutation.inverse(permutation(position)), position) << n;
    }
  }
  for (const std::uint64_t n : {std::uint64_t{1} << 63, std::uint64_t{10'000'000'000'001}}) {
    const Permutation permutation(n, 9, 2);
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const std::uint64_t position = n / 1000 * i;
      ASSERT_EQ(permutation.inverse(permutation(position)), position) << n;
    }
  }
}

TEST(Permutation, TweaksGivePermutationsThatDiffer) {
  const Permutation base(1'000'000, 1, 0);
  std::set<std::vector<std::uint64_t>> orders;
  for (std::uint64_t tweak = 0; tweak < 200; ++tweak) {
    const std::uint64_t n = 50 + tweak % 3;
    const Permutation permutation = base.tweaked(n, tweak);
    std::vector<bool> seen(n);
    std::vector<std::uint64_t> order;
    for (std::uint64_t p = 0; p < n; ++p) {
      ASSERT_LT(permutation(p), n);
      ASSERT_FALSE(seen[permutation(p)]);
      seen[permutation(p)] = true;
      order.push_back(permutation(p));
    }
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 200u);
}

TEST(Permutation, AllOrdersOfAFewAreEquallyLikely) {
  // The 24 orders of 4 over 2,400 seeds: 100 each; with 23 degrees of freedom 60 is beyond the
  // 99.99 % point. The same over epochs, and over the tweaks of one permutation.
  constexpr std::uint64_t kKeys = 2'400;
  const Permutation base(1 << 20, 5, 5);
  for (int source = 0; source < 3; ++source) {
    std::map<std::vector<std::uint64_t>, double> counts;
    for (std::uint64_t key = 0; key < kKeys; ++key) {
      const Permutation permutation = source == 0   ? Permutation(4, key, 0)
                                      : source == 1 ? Permutation(4, 0, key)
                                                    : base.tweaked(4, key);
      ++counts[{permutation(0), permutation(1), permutation(2), permutation(3)}];
    }
    ASSERT_EQ(counts.size(), 24u) << source;
    double chi_square = 0;
    for (const auto& [order, count] : counts) chi_square += std::pow(count - 100, 2) / 100;
    EXPECT_LT(chi_square, 60) << source;
  }
}

TEST(Permutation, NeighboursAndEpochsAreIndependent) {
  // Pairs (image of p, image of p + 1), and (image in epoch e, image in epoch e + 1), over 16 x 16
  // cells of equal size: 255 degrees of freedom, 350 is beyond the 99.99 % point.
  constexpr std::uint64_t kSize = 200'000;
  constexpr std::uint64_t kCells = 16;
  const Permutation one(kSize, 3, 4);
  const Permutation two(kSize, 3, 5);
  std::vector<double> neighbours(kCells * kCells);
  std::vector<double> epochs(kCells * kCells);
  const auto cell = [](std::uint64_t value) { return value * kCells / kSize; };
  for (std::uint64_t p = 0; p + 1 < kSize; ++p) {
    ++neighbours[cell(one(p)) * kCells + cell(one(p + 1))];
    ++epochs[cell(one(p)) * kCells + cell(two(p))];
  }
  const double expected = static_cast<double>(kSize - 1) / (kCells * kCells);
  for (const auto* counts : {&neighbours, &epochs}) {
    double chi_square = 0;
    for (const double count : *counts) chi_square += std::pow(count - expected, 2) / expected;
    EXPECT_LT(chi_square, 350);
  }
}

TEST(Permutation, HasAsManyFixedPointsAndCyclesAsARandomOne) {
  // Over 2,000 epochs of 1,000: one fixed point on average, and ln(1000) + 0.577 = 7.48 cycles;
  // the standard errors are 0.022 and 0.054.
  constexpr std::uint64_t kSize = 1000;
  constexpr std::uint64_t kEpochs = 2000;
  double fixed_points = 0;
  double cycles = 0;
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Permutation permutation(kSize, 77, epoch);
    std::vector<bool> seen(kSize);
    for (std::uint64_t p = 0; p < kSize; ++p) {
      if (permutation(p) == p) ++fixed_points;
      if (seen[p]) continue;
      ++cycles;
      for (std::uint64_t at = p; !seen[at]; at = permutation(at)) seen[at] = true;
    }
  }
  EXPECT_NEAR(fixed_points / kEpochs, 1.0, 0.1);
  EXPECT_NEAR(cycles / kEpochs, 7.485, 0.25);
}

TEST(Permutation, DependsOnSeedAndEpoch) {
  const auto first_hundred = [](std::uint64_t seed, std::uint64_t epoch) {
    const Permutation permutation(1000, seed, epoch);
    std::vector<std::uint64_t> samples;
    for (std::uint64_t i = 0; i < 100; ++i) samples.push_back(permutation(i));
    return samples;
  };
  EXPECT_EQ(first_hundred(1, 0), first_hundred(1, 0));
  EXPECT_NE(first_hundred(1, 0), first_hundred(1, 1));
  EXPECT_NE(first_hundred(1, 0), first_hundred(2, 0));
}

TEST(Permutation, SaysTheSameOnEveryMachineAndVersion) {
  // The order is part of what a seed means: a change here breaks every saved position.
  const Permutation permutation(1'281'167, /*seed=*/7, /*epoch=*/3);
  const std::vector<std::uint64_t> expected = {843315, 250945, 91247,  157983,
                                               43379,  746350, 914383, 401746};
  for (std::uint64_t i = 0; i < expected.size(); ++i) EXPECT_EQ(permutation(i), expected[i]) << i;
}

TEST(Permutation, SpreadsEachPositionEvenlyOverManyKeys) {
  // Chi-square of (position, sample) over 4,000 epochs for a small set: each of the 12 x 12 cells
  // is expected 333 times; with 143 - 11 - 11 degrees of freedom 200 is beyond the 99.99 % point.
  constexpr std::uint64_t kSize = 12;
  constexpr std::uint64_t kEpochs = 4'000;
  std::vector<std::uint64_t> counts(kSize * kSize);
  for (std::uint64_t epoch = 0; epoch < kEpochs; ++epoch) {
    const Permutation permutation(kSize, 0, epoch);
    for (std::uint64_t p = 0; p < kSize; ++p) ++counts[p * kSize + permutation(p)];
  }
  const double expected = static_cast<double>(kEpochs) / kSize;
  double chi_square = 0;
  for (const std::uint64_t count : counts) {
    chi_square += std::pow(static_cast<double>(count) - expected, 2) / expected;
  }
  EXPECT_LT(chi_square, 200);
}

TEST(Permutation, LeavesNoOrderBetweenNeighbours) {
  // The mean distance of neighbours in a random order of n is n / 3.
  constexpr std::uint64_t kSize = 100'000;
  const Permutation permutation(kSize, 3, 4);
  double distance = 0;
  for (std::uint64_t p = 0; p + 1 < kSize; ++p) {
    distance +=
        std::abs(static_cast<double>(permutation(p)) - static_cast<double>(permutation(p + 1)));
  }
  EXPECT_NEAR(distance / kSize / kSize, 1.0 / 3, 0.01);
}

}  // namespace
}  // namespace feedrace::order
