// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/fixed_queue.h"

#include <memory>

#include <gtest/gtest.h>

namespace feedrace::storage {
namespace {

TEST(FixedQueue, GivesItemsBackInTheOrderTheyCameAlsoAroundTheEnd) {
  FixedQueue<int> queue(3);
  int pushed = 0;
  int popped = 0;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < 3; ++i) queue.push(pushed++);
    EXPECT_EQ(queue.size(), 3U);
    for (int i = 0; i < 2; ++i) EXPECT_EQ(queue.pop(), popped++);
    EXPECT_EQ(queue.pop(), popped++);
    EXPECT_TRUE(queue.empty());
    queue.push(pushed++);
    EXPECT_EQ(queue.pop(), popped++);
  }
}

TEST(FixedQueue, HoldsWhatCanOnlyBeMoved) {
  FixedQueue<std::unique_ptr<int>> queue(2);
  queue.push(std::make_unique<int>(7));
  EXPECT_EQ(*queue.pop(), 7);
}

}  // namespace
}  // namespace feedrace::storage
