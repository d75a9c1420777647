// SPDX-License-Identifier: Apache-2.0
// What a trace file must be for a viewer: whole, spans that nest, arrows with both ends, lanes with
// names; and that it is so however a run ends.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/loader.h"
#include "feedrace/pipeline/test_sets.h"
#include "feedrace/testing/faulty_backend.h"

namespace feedrace::pipeline {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using Json = nlohmann::json;
using Lane = std::pair<int, int>;  // Process and thread.

Json read_trace(const std::string& path) {
  std::ifstream file(path);
  return Json::parse(file);
}

std::vector<Json> of_phase(const Json& trace, const std::string& phase) {
  std::vector<Json> found;
  for (const Json& event : trace) {
    if (event["ph"] == phase) found.push_back(event);
  }
  return found;
}

Lane lane_of(const Json& event) { return {event["pid"], event["tid"]}; }

/// Nanoseconds, exact: the file has three decimals of microseconds.
std::int64_t ns_of(const Json& value) {
  return static_cast<std::int64_t>(std::llround(value.get<double>() * 1000));
}

struct Span {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::string name;
};

std::map<Lane, std::vector<Span>> spans_of(const Json& trace) {
  std::map<Lane, std::vector<Span>> spans;
  for (const Json& event : of_phase(trace, "X")) {
    const std::int64_t begin = ns_of(event["ts"]);
    spans[lane_of(event)].push_back({begin, begin + ns_of(event["dur"]), event["name"]});
  }
  for (auto& [lane, list] : spans) {
    std::sort(list.begin(), list.end(), [](const Span& a, const Span& b) {
      return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
    });
  }
  return spans;
}

std::set<std::string> names_in(const Json& trace, const std::string& phase) {
  std::set<std::string> names;
  for (const Json& event : of_phase(trace, phase)) names.insert(event["name"]);
  return names;
}

void expect_nested(const Json& trace) {
  for (const auto& [lane, spans] : spans_of(trace)) {
    std::vector<Span> open;
    for (const Span& span : spans) {
      while (!open.empty() && open.back().end <= span.begin) open.pop_back();
      if (!open.empty()) {
        EXPECT_LE(span.end, open.back().end)
            << span.name << " sticks out of " << open.back().name << " on lane " << lane.second;
      }
      open.push_back(span);
    }
  }
}

void expect_arrows(const Json& trace) {
  std::map<int, std::map<std::string, Json>> ways;
  for (const char* phase : {"s", "t", "f"}) {
    for (const Json& event : of_phase(trace, phase)) {
      EXPECT_TRUE(ways[event["id"]].emplace(phase, event).second) << event;
    }
  }
  const auto spans = spans_of(trace);
  for (const auto& [id, points] : ways) {
    ASSERT_EQ(points.size(), 3) << "arrow " << id << " hangs";
    EXPECT_LE(ns_of(points.at("s")["ts"]), ns_of(points.at("t")["ts"]));
    EXPECT_LE(ns_of(points.at("t")["ts"]), ns_of(points.at("f")["ts"]));
    for (const auto& [phase, point] : points) {
      const std::int64_t at = ns_of(point["ts"]);
      const auto& lane = spans.at(lane_of(point));
      EXPECT_TRUE(std::any_of(lane.begin(), lane.end(),
                              [&](const Span& span) { return span.begin <= at && at < span.end; }))
          << point << " is tied to no span";
    }
  }
}

void expect_named(const Json& trace) {
  std::set<Lane> named;
  std::set<int> groups;
  for (const Json& event : of_phase(trace, "M")) {
    if (event["name"] == "thread_name") named.insert(lane_of(event));
    if (event["name"] == "process_name") groups.insert(event["pid"].get<int>());
  }
  for (const auto& [lane, spans] : spans_of(trace)) {
    EXPECT_THAT(named, Contains(lane));
    EXPECT_THAT(groups, Contains(lane.first));
  }
}

void expect_reads_paired(const Json& trace) {
  std::map<int, int> open;
  for (const Json& event : of_phase(trace, "b")) ++open[event["id"]];
  for (const Json& event : of_phase(trace, "e")) --open[event["id"]];
  for (const auto& [id, count] : open) EXPECT_EQ(count, 0) << "read " << id;
}

void expect_sound(const Json& trace) {
  expect_nested(trace);
  expect_arrows(trace);
  expect_named(trace);
  expect_reads_paired(trace);
  const Json last = trace.back();
  EXPECT_EQ(last["name"], "end of the trace");
  EXPECT_EQ(last["args"]["events"], trace.size() - 1);
}

TEST(Trace, ShowsEachStageQueuesAndTheWayOfEachBatch) {
  const testing::TempDir dir;
  Loader loader(small_options(write_shards(dir, 48, 3)));
  loader.start_trace(dir / "trace.json");
  EXPECT_EQ(load_epoch(loader).size(), 6);
  loader.stop_trace();
  const Json trace = read_trace(dir / "trace.json");
  expect_sound(trace);
  EXPECT_THAT(names_in(trace, "X"),
              IsSupersetOf({"choose and submit", "wait for storage", "hand on",
                            "decode and augment", "next(): wait for a batch", "train"}));
  EXPECT_THAT(names_in(trace, "C"), IsSupersetOf({"reads in flight", "samples to decode",
                                                  "batches in work", "batches ready"}));
  EXPECT_EQ(of_phase(trace, "f").size(), 6);
  std::set<std::uint64_t> samples;
  for (const Json& event : of_phase(trace, "X")) {
    if (event["name"] == "decode and augment")
      samples.insert(event["args"]["sample"].get<std::uint64_t>());
  }
  EXPECT_EQ(samples.size(), 48) << "each sample's decoding is told";
  EXPECT_EQ(trace.back()["args"]["dropped_events"], 0);
}

std::uint64_t decoded(const Loader& loader) {
  for (const StageStats& stage : loader.stats().stages) {
    if (stage.name == "decode") return stage.item_count;
  }
  return 0;
}

/// I/O, decoding and training at once: while the first batch is trained on, a later one, for which
/// there was no room before, is read and decoded.
TEST(Trace, ShowsThatStagesOverlap) {
  const testing::TempDir dir;
  LoaderOptions options = small_options(write_folder(dir, 48));
  const auto ahead = static_cast<std::uint64_t>(options.prefetch_factor);
  Loader loader(options);
  loader.start_trace(dir / "trace.json");
  ASSERT_TRUE(loader.next());
  while (decoded(loader) < (ahead + 1) * options.batch_size) std::this_thread::yield();
  ASSERT_TRUE(loader.next());
  loader.stop_trace();
  const Json trace = read_trace(dir / "trace.json");
  std::int64_t begin = -1;
  std::int64_t end = -1;
  for (const Json& event : of_phase(trace, "X")) {
    if (event["name"] != "train" || event["args"]["step"] != 0) continue;
    begin = ns_of(event["ts"]);
    end = begin + ns_of(event["dur"]);
  }
  ASSERT_GE(begin, 0);
  const auto is_meanwhile = [&](const Json& event) {
    return ns_of(event["ts"]) >= begin && ns_of(event["ts"]) < end;
  };
  // Reads run ahead of decoding, before or while the first batch is trained on: by its end there
  // are those of all that was decoded, not of the one batch that was asked for.
  const std::vector<Json> reads = of_phase(trace, "e");
  const auto read_by_then = std::count_if(
      reads.begin(), reads.end(), [&](const Json& event) { return ns_of(event["ts"]) < end; });
  EXPECT_GE(static_cast<std::uint64_t>(read_by_then), (ahead + 1) * options.batch_size);
  const std::vector<Json> spans = of_phase(trace, "X");
  EXPECT_TRUE(std::any_of(spans.begin(), spans.end(), [&](const Json& event) {
    return event["name"] == "decode and augment" && event["args"]["step"] == ahead &&
           is_meanwhile(event);
  }));
}

TEST(Trace, OfALoaderThatNeverRanIsWhole) {
  const testing::TempDir dir;
  Loader loader(small_options(write_folder(dir, 8)));
  loader.start_trace(dir / "trace.json");
  loader.stop_trace();
  expect_sound(read_trace(dir / "trace.json"));
}

TEST(Trace, CanBeginAndEndWhileThreadsRun) {
  const testing::TempDir dir;
  Loader loader(small_options(write_folder(dir, 48)));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(loader.next());
  loader.start_trace(dir / "a.json");
  while (loader.next()) {
  }
  loader.stop_trace();
  ASSERT_TRUE(loader.next());
  loader.start_trace(dir / "b.json");
  while (loader.next()) {
  }
  loader.stop_trace();
  for (const char* name : {"a.json", "b.json"}) expect_sound(read_trace(dir / name));
  EXPECT_FALSE(of_phase(read_trace(dir / "b.json"), "X").empty());
}

TEST(Trace, IsWholeWhenTheRunEndsByAnError) {
  const testing::TempDir dir;
  const std::string folder = write_folder(dir, 24);
  dir.write("folder/c1/001.jpg", "no picture");
  {
    Loader loader(small_options(folder));
    loader.start_trace(dir / "trace.json");
    EXPECT_THROW(while (loader.next()){}, Error);
  }
  expect_sound(read_trace(dir / "trace.json"));
}

TEST(Trace, IsWholeWhenTheConsumerLeavesOrRests) {
  const testing::TempDir dir;
  {
    Loader loader(small_options(write_folder(dir, 48)));
    loader.start_trace(dir / "trace.json");
    ASSERT_TRUE(loader.next());
    loader.pause();
    ASSERT_TRUE(loader.next());
  }
  const Json trace = read_trace(dir / "trace.json");
  expect_sound(trace);
  EXPECT_GE(of_phase(trace, "f").size(), 1);
}

TEST(Trace, ThatCanNotBeWrittenSaysWhere) {
  const testing::TempDir dir;
  Loader loader(small_options(write_folder(dir, 8)));
  try {
    loader.start_trace(dir / "absent/trace.json");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_THAT(error.what(), HasSubstr("absent/trace.json: open: No such file"));
  }
  loader.start_trace(dir / "trace.json");
  EXPECT_THROW(loader.start_trace(dir / "other.json"), Error);
  loader.stop_trace();
}

TEST(Trace, OnAFullDiskEndsEarlyAndSaysSo) {
  const testing::TempDir dir;
  Loader loader(small_options(write_folder(dir, 16)));
  loader.start_trace("/dev/full");
  while (loader.next()) {
  }
  try {
    loader.stop_trace();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/full: write: No space left on device"));
  }
  ASSERT_FALSE(loader.stats().fallbacks.empty());
  EXPECT_THAT(loader.stats().fallbacks.front().sentence, HasSubstr("the trace ends early"));
}

}  // namespace
}  // namespace feedrace::pipeline
