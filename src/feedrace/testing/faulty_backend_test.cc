// SPDX-License-Identifier: Apache-2.0
#include "feedrace/testing/faulty_backend.h"

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/testing/null_backend.h"

namespace feedrace::testing {
namespace {

using storage::Completion;
using storage::ReadRequest;
using ::testing::HasSubstr;

FaultyBackend with_plan(FaultPlan plan) {
  return FaultyBackend(std::make_unique<NullBackend>(), std::move(plan));
}

/// Reads of 8 bytes of "x" at offsets 0, 8, 16, ...
std::vector<ReadRequest> requests_into(std::span<std::byte> memory) {
  std::vector<ReadRequest> requests;
  for (std::size_t at = 0; at < memory.size(); at += 8) {
    requests.push_back({nullptr, "x", at, memory.subspan(at, 8), at});
  }
  return requests;
}

TEST(FaultyBackend, AReadFailsInEveryRunOrInNone) {
  const FaultPlan plan{7, 0.2, 0.2, 0.2, {}};
  std::array<std::size_t, 4> counts{};
  for (std::uint64_t offset = 0; offset < 10'000; ++offset) {
    const Fault fault = FaultyBackend::fault_of(plan, "x", offset);
    EXPECT_EQ(fault, FaultyBackend::fault_of(plan, "x", offset));
    ++counts[static_cast<std::size_t>(fault)];
  }
  // Five standard deviations of a share of 0.2 in 10,000 are 200.
  EXPECT_NEAR(static_cast<double>(counts[1]), 2000, 200);
  EXPECT_NEAR(static_cast<double>(counts[2]), 2000, 200);
  EXPECT_NEAR(static_cast<double>(counts[3]), 2000, 200);
}

TEST(FaultyBackend, OtherSeedsAndFilesHaveOtherFaults) {
  const auto faults = [](std::uint64_t seed, std::string_view name) {
    std::string text;
    for (std::uint64_t offset = 0; offset < 100; ++offset) {
      text +=
          FaultyBackend::fault_of({seed, 0.5, 0, 0, {}}, name, offset) == Fault::kError ? 'E' : '.';
    }
    return text;
  };
  EXPECT_NE(faults(1, "x"), faults(2, "x"));
  EXPECT_NE(faults(1, "x"), faults(1, "y"));
  EXPECT_EQ(faults(1, "/tmp/one/x"), faults(1, "/tmp/other/x"));
}

TEST(FaultyBackend, ErrorsReadLikeThoseOfADevice) {
  auto backend = with_plan({0, 1.0, 0, 0, {}});
  std::array<std::byte, 8> memory{};
  std::vector<Completion> out(1);
  ASSERT_EQ(backend.submit(requests_into(memory)), 1U);
  ASSERT_EQ(backend.wait(out, 1), 1U);
  ASSERT_FALSE(out[0].bytes_read);
  EXPECT_EQ(out[0].bytes_read.error().code, ErrorCode::kIo);
  EXPECT_THAT(out[0].bytes_read.error().message,
              HasSubstr("x: reading 8 bytes at offset 0 failed (pread: Input/output error)"));
  EXPECT_EQ(backend.fault_count(), 1U);
}

TEST(FaultyBackend, ShortReadsEndHalfway) {
  auto backend = with_plan({0, 0, 1.0, 0, {}});
  std::array<std::byte, 8> memory{};
  std::vector<Completion> out(1);
  ASSERT_EQ(backend.submit(requests_into(memory)), 1U);
  ASSERT_EQ(backend.wait(out, 1), 1U);
  ASSERT_TRUE(out[0].bytes_read);
  EXPECT_EQ(*out[0].bytes_read, 4U);
}

TEST(FaultyBackend, LateReadsComeLastAndAreRight) {
  const FaultPlan plan{3, 0, 0, 0.3, {}};
  auto backend = with_plan(plan);
  std::array<std::byte, 256> memory{};
  std::vector<Completion> out(32);
  ASSERT_EQ(backend.submit(requests_into(memory)), 32U);
  ASSERT_EQ(backend.wait(out, 32), 32U);
  std::string order;
  for (const Completion& completion : out) {
    const bool is_late = FaultyBackend::fault_of(plan, "x", completion.user_data) == Fault::kLate;
    order += is_late ? 'L' : '.';
    ASSERT_TRUE(completion.bytes_read);
    EXPECT_EQ(*completion.bytes_read, 8U);
  }
  EXPECT_NE(order.find('L'), std::string::npos);
  EXPECT_EQ(order.find('.', order.find('L')), std::string::npos) << order;
  for (std::size_t i = 0; i < memory.size(); ++i) EXPECT_EQ(memory[i], NullBackend::byte_at(i));
}

TEST(FaultyBackend, ReadsThatHangStayUntilTheyAreCancelled) {
  FaultPlan plan;
  plan.hangs = [](const ReadRequest& request) { return request.offset_bytes == 8; };
  auto backend = with_plan(plan);
  std::array<std::byte, 32> memory{};
  std::vector<Completion> out(4);
  ASSERT_EQ(backend.submit(requests_into(memory)), 4U);
  EXPECT_EQ(backend.wait(out, 3), 3U);
  EXPECT_EQ(backend.hanging_count(), 1U);
  EXPECT_EQ(backend.wait(out, 0), 0U);
  std::thread interrupter([&] { backend.interrupt(); });
  EXPECT_EQ(backend.wait(out, 1), 0U);
  interrupter.join();
  backend.cancel_all();
  ASSERT_EQ(backend.wait(out, 1), 1U);
  EXPECT_EQ(out[0].user_data, 8U);
  ASSERT_FALSE(out[0].bytes_read);
  EXPECT_EQ(out[0].bytes_read.error().code, ErrorCode::kCancelled);
  EXPECT_EQ(backend.hanging_count(), 0U);
}

TEST(FaultyBackend, EveryReadCompletesOnceWhateverGoesWrong) {
  auto backend = with_plan({5, 0.2, 0.2, 0.2, {}});
  std::vector<std::byte> memory(8000);
  const auto requests = requests_into(memory);
  std::vector<int> times(memory.size());
  std::vector<Completion> out(8);
  std::size_t sent = 0;
  for (std::size_t done = 0; done < requests.size();) {
    sent += backend.submit(std::span(requests).subspan(sent));
    const std::size_t count = backend.wait(out, 1);
    ASSERT_GT(count, 0U);
    for (std::size_t i = 0; i < count; ++i) ++times[out[i].user_data];
    done += count;
  }
  for (const ReadRequest& request : requests) EXPECT_EQ(times[request.user_data], 1);
}

}  // namespace
}  // namespace feedrace::testing
