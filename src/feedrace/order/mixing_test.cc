// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/mixing.h"

#include <gtest/gtest.h>

#include "feedrace/order/test_orders.h"

namespace feedrace::order {
namespace {

Mixing mixing_of(Shuffle shuffle, std::uint64_t chunk, std::uint64_t window,
                 std::uint64_t count = 100'000) {
  OrderOptions options;
  options.sets = {whole_set(count)};
  options.shuffle = {shuffle, chunk, window, 3};
  return measure_mixing(SampleOrder(options), 0, 256);
}

TEST(Mixing, IsWholeForAGlobalShuffleAndNearNothingForTheStoredOrder) {
  const Mixing global = mixing_of(Shuffle::kGlobal, 64, 4096);
  EXPECT_EQ(global.batch_samples, 256u);
  EXPECT_NEAR(global.random_stretches, 256 * (1 - 1 / 2.718), 1);
  EXPECT_NEAR(global.score, 1, 0.03);
  const Mixing none = mixing_of(Shuffle::kNone, 64, 4096);
  EXPECT_LT(none.score, 0.02);
}

TEST(Mixing, OfAWindowGrowsWithTheWindowAndFallsWithTheChunk) {
  const double small = mixing_of(Shuffle::kWindow, 64, 256).score;
  const double medium = mixing_of(Shuffle::kWindow, 64, 4096).score;
  const double large = mixing_of(Shuffle::kWindow, 64, 65'536).score;
  const double fine = mixing_of(Shuffle::kWindow, 4, 4096).score;
  EXPECT_LT(small, medium);
  EXPECT_LT(medium, large);
  EXPECT_LT(medium, fine);
  EXPECT_NEAR(small, 4.0 / 162, 0.01);  // A batch is one window of four chunks.
}

TEST(Mixing, IsDefinedForTheSmallestSets) {
  for (const std::uint64_t count : {1, 2, 3}) {
    EXPECT_NEAR(mixing_of(Shuffle::kGlobal, 64, 4096, count).score, 1, 0.001) << count;
  }
}

}  // namespace
}  // namespace feedrace::order
