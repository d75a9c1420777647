// SPDX-License-Identifier: Apache-2.0
#include "feedrace/testing/slow_backend.h"

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/storage/clock.h"
#include "feedrace/testing/null_backend.h"

namespace feedrace::testing {
namespace {

using storage::Completion;
using storage::ReadRequest;

constexpr std::uint64_t kNever = std::uint64_t{1} << 55;  // A year in nanoseconds.

std::vector<ReadRequest> requests_into(std::span<std::byte> memory, std::size_t count) {
  std::vector<ReadRequest> requests;
  const std::size_t size = memory.size() / count;
  for (std::size_t i = 0; i < count; ++i) {
    requests.push_back({nullptr, "x", 0, memory.subspan(i * size, size), i});
  }
  return requests;
}

TEST(SlowBackend, NoReadIsFasterThanTheShortestLatency) {
  SlowBackend backend(std::make_unique<NullBackend>(), {2'000'000, 4'000'000, 1});
  std::array<std::byte, 160> memory{};
  std::vector<Completion> out(16);
  ASSERT_EQ(backend.submit(requests_into(memory, 16)), 16U);
  EXPECT_EQ(backend.wait(out, 16), 16U);
  for (const Completion& completion : out) {
    EXPECT_TRUE(completion.bytes_read);
    EXPECT_GE(completion.latency_ns, 2'000'000U);
  }
}

TEST(SlowBackend, ReadsCompleteInAnOrderOfTheirOwnThatTheSeedDecides) {
  const auto order_with = [](std::uint64_t seed) {
    SlowBackend backend(std::make_unique<NullBackend>(), {0, 50'000'000, seed});
    std::array<std::byte, 80> memory{};
    std::vector<Completion> out(8);
    EXPECT_EQ(backend.submit(requests_into(memory, 8)), 8U);
    EXPECT_EQ(backend.wait(out, 8), 8U);
    std::vector<std::uint64_t> order;
    for (const Completion& completion : out) order.push_back(completion.user_data);
    return order;
  };
  EXPECT_EQ(order_with(1), order_with(1));
  EXPECT_NE(order_with(1), order_with(2));
}

TEST(SlowBackend, CancellationEndsTheWaitForTheLatency) {
  SlowBackend backend(std::make_unique<NullBackend>(), {kNever, kNever, 1});
  std::array<std::byte, 40> memory{};
  std::vector<Completion> out(4);
  ASSERT_EQ(backend.submit(requests_into(memory, 4)), 4U);
  EXPECT_EQ(backend.wait(out, 0), 0U);
  backend.cancel_all();
  EXPECT_EQ(backend.wait(out, 4), 4U);
}

TEST(SlowBackend, InterruptEndsAWaitThatWouldLastAYear) {
  SlowBackend backend(std::make_unique<NullBackend>(), {kNever, kNever, 1});
  std::array<std::byte, 40> memory{};
  std::vector<Completion> out(4);
  ASSERT_EQ(backend.submit(requests_into(memory, 4)), 4U);
  std::thread interrupter([&] { backend.interrupt(); });
  EXPECT_EQ(backend.wait(out, 4), 0U);
  interrupter.join();
}

}  // namespace
}  // namespace feedrace::testing
