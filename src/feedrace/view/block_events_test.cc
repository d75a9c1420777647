// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/block_events.h"

#include <string>

#include <gtest/gtest.h>

namespace feedrace::view {
namespace {

// As Linux 6.18 writes them.
constexpr const char* kIssue =
    "     a: b [x]-3061    [001] .....    70.338001: block_rq_issue: 254,0 RA 131072 () 2048 + 256 "
    "none,0,0 [a: b [x]]";
constexpr const char* kComplete =
    "          <idle>-0       [001] d.h1.    70.338251: block_rq_complete: 254,0 RA () 2048 + 256 "
    "none,0,0 [0]";

TEST(BlockEvents, MeasureFromIssueToCompletion) {
  BlockEvents events;
  events.add(kIssue);
  events.add(kComplete);
  ASSERT_EQ(events.latencies().size(), 1U);
  const LatencyHistogram& latency = events.latencies().at("254:0");
  EXPECT_EQ(latency.count(), 1U);
  EXPECT_EQ(latency.max_ns(), 250'000U);
  events.add(kComplete);  // A part of a request that was done already.
  EXPECT_EQ(latency.count(), 1U);
  events.reset();
  EXPECT_TRUE(events.latencies().empty());
}

TEST(BlockEvents, UnderstandOlderKernels) {
  BlockEvents events;  // Before 6.5 no priority is told.
  events.add("x-1 [0] d..1  1.000000: block_rq_issue: 8,16 R 4096 () 99 + 8 [x]");
  events.add("x-1 [0] d..1  1.000100: block_rq_complete: 8,16 R () 99 + 8 [0]");
  EXPECT_EQ(events.latencies().at("8:16").max_ns(), 100'000U);
}

TEST(BlockEvents, LeaveOutWritesOthersAndNonsense) {
  BlockEvents events;
  for (const char* line :
       {"x-1 [0] d..1  1.000000: block_rq_issue: 8,16 WS 4096 () 99 + 8 [x]",
        "x-1 [0] d..1  1.000100: block_rq_complete: 8,16 WS () 99 + 8 [0]",
        "x-1 [0] d..1  1.000100: sched_switch: x", "", ": block_rq_issue: ",
        "1.5: block_rq_issue: 8,16 R 1 () 5", "1.000000: block_rq_issue: 8,16 R",
        "1.000000: block_rq_issue: 8,16 R 1 () x + 8", "x: block_rq_complete: 8,16 R () 5 + 1"}) {
    events.add(line);
  }
  EXPECT_TRUE(events.latencies().empty());
  EXPECT_EQ(events.lost(), 0U);
}

TEST(BlockEvents, CountWhatTheKernelLost) {
  BlockEvents events;
  events.add("CPU:1 [LOST 123 EVENTS]");
  events.add("CPU:0 [LOST 7 EVENTS]");
  EXPECT_EQ(events.lost(), 130U);
}

TEST(BlockEvents, KeepBoundedMemoryWhenCompletionsNeverCome) {
  BlockEvents events;
  for (int i = 0; i < 70'000; ++i) {
    events.add("x-1 [0] d  1.000000: block_rq_issue: 8,16 R 4096 () " + std::to_string(i) +
               " + 8 [x]");
  }
  EXPECT_EQ(events.lost(), 65'536U);
}

}  // namespace
}  // namespace feedrace::view
