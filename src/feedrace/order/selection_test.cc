// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/selection.h"

#include <cstdint>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace feedrace::order {
namespace {

TEST(Selection, AllIsTheSetItself) {
  const Selection all = Selection::all(std::uint64_t{1} << 63);
  EXPECT_EQ(all.size(), std::uint64_t{1} << 63);
  EXPECT_EQ(all.sample(12'345), 12'345u);
  EXPECT_EQ(all.occurrence(12'345), 0u);
}

TEST(Selection, ListKeepsItsOrderAndCountsRepeats) {
  const Selection list = Selection::list({7, 3, 7, 7, 1});
  ASSERT_EQ(list.size(), 5u);
  EXPECT_EQ(list.repeat_count(), 2u);
  const std::vector<std::uint64_t> samples = {7, 3, 7, 7, 1};
  const std::vector<std::uint64_t> occurrences = {0, 0, 1, 2, 0};
  for (std::uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(list.sample(i), samples[i]);
    EXPECT_EQ(list.occurrence(i), occurrences[i]);
  }
  EXPECT_EQ(Selection::list({5, 4, 3}).repeat_count(), 0u);
}

TEST(Selection, MaskGivesItsSetBitsInOrder) {
  std::mt19937_64 random(5);
  for (const unsigned sparsity : {0u, 1u, 4u, 9u}) {
    std::vector<std::uint64_t> bits(300);
    for (std::uint64_t& word : bits) {
      word = random();
      for (unsigned i = 0; i < sparsity; ++i) word &= random();
    }
    bits[17] = ~std::uint64_t{0};
    std::vector<std::uint64_t> expected;
    for (std::uint64_t i = 0; i < bits.size() * 64; ++i) {
      if (bits[i / 64] >> i % 64 & 1) expected.push_back(i);
    }
    const Selection mask = Selection::mask(bits);
    ASSERT_EQ(mask.size(), expected.size());
    for (std::uint64_t i = 0; i < expected.size(); ++i) ASSERT_EQ(mask.sample(i), expected[i]);
  }
}

TEST(Selection, DigestTellsMembersAndTheirOrderApart) {
  EXPECT_EQ(Selection::list({1, 2, 3}).digest(), Selection::list({1, 2, 3}).digest());
  EXPECT_NE(Selection::list({1, 2, 3}).digest(), Selection::list({1, 3, 2}).digest());
  EXPECT_NE(Selection::mask({5}).digest(), Selection::mask({7}).digest());
  EXPECT_NE(Selection::all(5).digest(), Selection::all(6).digest());
}

}  // namespace
}  // namespace feedrace::order
