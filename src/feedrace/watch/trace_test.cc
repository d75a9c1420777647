// SPDX-License-Identifier: Apache-2.0
#include "feedrace/watch/trace.h"

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/testing/temp_dir.h"
#include "feedrace/watch/trace_text.h"

namespace feedrace::watch {
namespace {

TEST(TraceLane, CountsWhatFindsNoRoom) {
  TraceLane lane(TraceStage::kDecode, 0);
  lane.reserve();
  for (std::uint64_t i = 0; i < 5000; ++i) lane.push({TraceKind::kDecode, i, i + 1, i, 0});
  std::uint64_t taken = 0;
  lane.drain([&](const TraceEvent& event) { EXPECT_EQ(event.subject, taken++); });
  EXPECT_EQ(taken + lane.take_dropped(), 5000);
  EXPECT_LT(taken, 5000);
  EXPECT_EQ(lane.take_dropped(), 0);
  lane.push({TraceKind::kDecode, 1, 2, 7, 0});  // There is room again.
  lane.drain([&](const TraceEvent& event) { EXPECT_EQ(event.subject, 7); });
}

TEST(TraceLane, KeepsTheOrderBetweenTwoThreads) {
  TraceLane lane(TraceStage::kDecode, 0);
  lane.reserve();
  constexpr std::uint64_t kEvents = 100'000;
  std::thread producer([&] {
    for (std::uint64_t i = 0; i < kEvents; ++i) lane.push({TraceKind::kDecode, i, i, i, 0});
  });
  std::uint64_t taken = 0;
  std::uint64_t next = 0;
  const auto drain = [&] {
    lane.drain([&](const TraceEvent& event) {
      EXPECT_GE(event.subject, next);
      next = event.subject + 1;
      ++taken;
    });
  };
  while (next + lane.take_dropped() == 0) drain();
  producer.join();
  drain();
  EXPECT_GT(taken, 0);
}

TEST(TraceText, KeepsNoArrowWithoutBothEnds) {
  TraceText text(100);
  std::string out;
  text.begin(out);
  const auto mark = [&](TraceKind kind, TraceStage stage, std::uint64_t at, std::uint64_t batch) {
    text.add(out, stage, 0, {kind, at, at, 0, batch});
  };
  mark(TraceKind::kBatchRead, TraceStage::kRead, 50, batch_id(0, 1));  // Before the file.
  mark(TraceKind::kDecode, TraceStage::kDecode, 150, batch_id(0, 1));
  mark(TraceKind::kBatchTaken, TraceStage::kConsumer, 160, batch_id(0, 1));
  mark(TraceKind::kBatchTaken, TraceStage::kConsumer, 190, batch_id(3, 2));  // In any order.
  mark(TraceKind::kBatchRead, TraceStage::kRead, 120, batch_id(3, 2));
  mark(TraceKind::kDecode, TraceStage::kDecode, 170, batch_id(3, 2));
  text.draw_ways(out);
  text.end(out, 200, 9);
  const auto trace = nlohmann::json::parse(out);
  int points = 0;
  for (const auto& event : trace) {
    if (event.value("cat", "") != "batch") continue;
    ++points;
    EXPECT_EQ(event["args"]["epoch"], 3);
    EXPECT_EQ(event["args"]["step"], 2);
  }
  EXPECT_EQ(points, 3);
  EXPECT_EQ(trace.back()["args"]["dropped_events"], 9);
  EXPECT_EQ(trace.back()["args"]["events"], trace.size() - 1);
}

TEST(TraceText, WritesALevelWhenItChanges) {
  TraceText text(0);
  std::string out;
  text.begin(out);
  static const char* const kName = "queue";
  for (const std::uint64_t value : {0, 0, 3, 3, 3, 1}) text.level(out, kName, 1500, value);
  text.end(out, 2000, 0);
  std::vector<int> values;
  for (const auto& event : nlohmann::json::parse(out)) {
    if (event["ph"] != "C") continue;
    values.push_back(event["args"]["value"]);
    EXPECT_EQ(event["ts"], 1.5);
  }
  EXPECT_EQ(values, (std::vector<int>{0, 3, 1}));
}

TEST(Trace, TellsNothingWhenItIsOff) {
  const testing::TempDir dir;
  Trace trace;
  const Tracing tracing(trace, TraceStage::kDecode, 0);
  const auto now = std::chrono::steady_clock::now();
  tracing.span(TraceKind::kDecode, now, now);  // No memory was reserved for it.
  trace.start(dir / "a.json", [] { return Trace::Levels(); }, [](const std::string&) {});
  EXPECT_TRUE(tracing.is_on());
  trace.stop();
  EXPECT_FALSE(tracing.is_on());
  std::ifstream file(dir / "a.json");
  for (const auto& event : nlohmann::json::parse(file)) EXPECT_NE(event["ph"], "X");
}

}  // namespace
}  // namespace feedrace::watch
