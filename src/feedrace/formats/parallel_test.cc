// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/parallel.h"

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace feedrace::formats {
namespace {

TEST(ParallelFor, DoesEveryIndexOnce) {
  std::vector<std::atomic<int>> done(1000);
  parallel_for(done.size(), 4, [&](std::size_t i) { ++done[i]; });
  for (const std::atomic<int>& count : done) EXPECT_EQ(count, 1);
}

TEST(ParallelFor, DoesNothingOfNothing) {
  parallel_for(0, 4, [](std::size_t) { FAIL(); });
}

TEST(ParallelFor, ThrowsTheLowestFailureWhicheverComesFirst) {
  std::atomic<bool> is_later_thrown = false;
  const auto work = [&](std::size_t i) {
    if (i == 1) {
      is_later_thrown = true;
      throw std::runtime_error("the later one");
    }
    if (i > 1) return;
    while (!is_later_thrown) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    throw std::runtime_error("the first one");
  };
  try {
    parallel_for(100, 2, work);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_EQ(error.what(), std::string("the first one"));
  }
}

}  // namespace
}  // namespace feedrace::formats
