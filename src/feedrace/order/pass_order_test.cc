// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/pass_order.h"

#include <algorithm>
#include <cstdint>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace feedrace::order {
namespace {

ShuffleOptions window(std::uint64_t chunk, std::uint64_t samples, std::uint64_t seed = 1) {
  return {Shuffle::kWindow, chunk, samples, seed};
}

std::vector<std::uint64_t> whole_pass(const PassOrder& order, std::uint64_t n) {
  std::vector<std::uint64_t> members;
  for (std::uint64_t place = 0; place < n; ++place) members.push_back(order(place));
  return members;
}

TEST(PassOrder, WindowGivesEachMemberOnceForAnySizes) {
  for (const std::uint64_t n : {1, 2, 63, 64, 65, 129, 1000, 4097}) {
    for (const std::uint64_t chunk : {1, 3, 64, 5000}) {
      for (const std::uint64_t samples : {1, 7, 64, 300, 100'000}) {
        const PassOrder order(window(chunk, samples), n, 0, 3);
        const std::vector<std::uint64_t> members = whole_pass(order, n);
        const std::set<std::uint64_t> distinct(members.begin(), members.end());
        ASSERT_EQ(distinct.size(), n) << n << ", " << chunk << ", " << samples;
        ASSERT_EQ(*distinct.rbegin(), n - 1);
      }
    }
  }
}

TEST(PassOrder, WindowTakesItsSamplesFromAFewWholeChunks) {
  constexpr std::uint64_t kChunk = 16;
  constexpr std::uint64_t kWindow = 64;
  constexpr std::uint64_t kSize = 64 * 40;
  const std::vector<std::uint64_t> members =
      whole_pass(PassOrder(window(kChunk, kWindow), kSize, 0, 0), kSize);
  for (std::uint64_t begin = 0; begin < kSize; begin += kWindow) {
    std::set<std::uint64_t> chunks;
    std::vector<std::uint64_t> inside(
        members.begin() + static_cast<std::ptrdiff_t>(begin),
        members.begin() + static_cast<std::ptrdiff_t>(begin + kWindow));
    for (const std::uint64_t member : inside) chunks.insert(member / kChunk);
    EXPECT_EQ(chunks.size(), kWindow / kChunk);
    EXPECT_FALSE(std::is_sorted(inside.begin(), inside.end()));
  }
}

TEST(PassOrder, WindowsOfOnePassAreMixedInDifferentWays) {
  // Where a chunk's own members come in its window, with one chunk a window.
  constexpr std::uint64_t kChunk = 32;
  const PassOrder order(window(kChunk, kChunk), kChunk * 100, 0, 0);
  std::set<std::vector<std::uint64_t>> patterns;
  for (std::uint64_t begin = 0; begin < kChunk * 100; begin += kChunk) {
    std::vector<std::uint64_t> pattern;
    for (std::uint64_t i = 0; i < kChunk; ++i) pattern.push_back(order(begin + i) % kChunk);
    patterns.insert(pattern);
  }
  EXPECT_EQ(patterns.size(), 100u);
}

TEST(PassOrder, IsAFunctionOfSeedSetAndPass) {
  for (const Shuffle shuffle : {Shuffle::kWindow, Shuffle::kGlobal}) {
    ShuffleOptions options = window(8, 64);
    options.shuffle = shuffle;
    const auto pass = [&](std::uint64_t seed, std::uint32_t set, std::uint64_t number) {
      options.seed = seed;
      return whole_pass(PassOrder(options, 1000, set, number), 1000);
    };
    EXPECT_EQ(pass(1, 0, 0), pass(1, 0, 0));
    EXPECT_NE(pass(1, 0, 0), pass(2, 0, 0));
    EXPECT_NE(pass(1, 0, 0), pass(1, 1, 0));
    EXPECT_NE(pass(1, 0, 0), pass(1, 0, 1));
  }
}

TEST(PassOrder, WindowSaysTheSameOnEveryMachineAndVersion) {
  // Part of what a seed means: a change here breaks every saved position.
  const PassOrder order(window(64, 4096, /*seed=*/7), 1'281'167, 0, 3);
  const std::vector<std::uint64_t> expected = {1130731, 300479, 669575, 249958,
                                               809424,  838702, 769136, 707991};
  for (std::uint64_t i = 0; i < expected.size(); ++i) EXPECT_EQ(order(1000 * i), expected[i]) << i;
}

TEST(PassOrder, WithoutShuffleKeepsTheStoredOrder) {
  const PassOrder order({Shuffle::kNone, 64, 4096, 9}, 100, 0, 5);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_EQ(order(i), i);
}

TEST(PassOrder, HoldsUpAtTheLargestSizes) {
  for (const std::uint64_t n : {std::uint64_t{1} << 63, std::uint64_t{10'000'000'000'001}}) {
    const PassOrder order(window(64, 4096), n, 0, 0);
    std::set<std::uint64_t> seen;
    for (std::uint64_t i = 0; i < 10'000; ++i) {
      const std::uint64_t member = order(n - 1 - i);
      ASSERT_LT(member, n);
      ASSERT_TRUE(seen.insert(member).second);
    }
  }
}

}  // namespace
}  // namespace feedrace::order
