// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/top.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"
#include "feedrace/testing/temp_dir.h"
#include "feedrace/watch/counters.h"
#include "feedrace/watch/server.h"

namespace feedrace::view {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using Json = nlohmann::ordered_json;

std::string diskstats(int reads, int sectors, int ms, int busy_ms) {
  return " 259 0 nvme0n1 " + std::to_string(reads) + " 40 " + std::to_string(sectors) + " " +
         std::to_string(ms) + " 0 0 0 0 0 " + std::to_string(busy_ms) + " " + std::to_string(ms) +
         " 0 0 0 0 0 0\n" + " 259 1 nvme0n1p1 9 0 9 9 0 0 0 0 0 9 9\n" + "half of a li";
}

testing::TempDir& with_machine(testing::TempDir& dir, const std::string& disks, int busy_ticks) {
  dir.write("proc/diskstats", disks);
  dir.write("sys/block/nvme0n1/size", "1\n");
  dir.write("proc/stat", "cpu  " + std::to_string(busy_ticks) + " 0 0 100 0 0 0 0 0 0\n");
  dir.write("proc/pressure/io", "some avg10=12.50 avg60=0.00 avg300=0.00 total=1\n");
  return dir;
}

watch::Snapshot loader_at(double seconds, std::uint64_t samples) {
  watch::Snapshot snapshot;
  snapshot.stats.seconds = seconds;
  snapshot.stats.samples = samples;
  snapshot.stats.bytes_by_path[static_cast<std::size_t>(Path::kDirect)] = samples * 1000;
  const auto n = static_cast<double>(samples);
  snapshot.stats.stages = {{"io", 1, n * 1e-4, n * 1e-4, 0, samples},
                           {"decode", 2, n * 9e-4, n * 1e-4, 0, samples},
                           {"consumer", 1, n * 2e-4, n * 6e-4, 0, samples / 32}};
  for (std::uint64_t i = 0; i < samples / 32; ++i) snapshot.stats.read_latency.record(200'000);
  snapshot.levels = {{"samples to decode", 12}};
  snapshot.verdict = "decode limits: 2 threads";
  snapshot.facts = {
      {"pid", "0"}, {"data", "/data/\x1b[2Jtrain"}, {"world_size", "2"}, {"rank", "1"}};
  return snapshot;
}

LoaderLook look_of(const watch::Snapshot& snapshot) {
  LoaderLook look;
  look.socket = "/run/1.sock";
  look.told = nlohmann::json(watch::to_json(snapshot));
  return look;
}

Json busy_top() {
  testing::TempDir dir;
  TopLook before;
  before.host = read_host_use(with_machine(dir, diskstats(100, 800, 50, 1000), 100).path());
  before.loaders.loaders = {look_of(loader_at(10, 3200))};
  TopLook after;
  after.when = before.when + std::chrono::seconds(2);
  after.host = read_host_use(with_machine(dir, diskstats(300, 2800, 250, 2500), 200).path());
  after.loaders.loaders = {look_of(loader_at(12, 7200))};
  after.loaders.loaders[0].cached = CachedShare{0.25, 128};
  LatencyHistogram latency;
  latency.record(90'000);
  after.block_latency = {{"devices", {{"nvme0n1", watch::to_json(latency)}}}, {"lost_events", 3}};
  after.loaders.silent = {"/run/2.sock: no answer within 500 ms"};
  return top_between(before, after);
}

TEST(Top, TellsRatesBetweenTwoLooks) {
  const Json top = busy_top();
  const Json& disk = top["devices"][0];
  ASSERT_THAT(top["devices"], SizeIs(1)) << "a partition, and half of a line, are no devices";
  EXPECT_EQ(disk["name"], "nvme0n1");
  EXPECT_DOUBLE_EQ(disk["reads_per_second"], 100);
  EXPECT_DOUBLE_EQ(disk["read_bytes_per_second"], 512'000);
  EXPECT_DOUBLE_EQ(disk["busy_share"], 0.75);
  EXPECT_DOUBLE_EQ(disk["queue"], 0.1);
  EXPECT_DOUBLE_EQ(disk["read_latency_ms"], 1);
  EXPECT_DOUBLE_EQ(disk["read_size_bytes"], 5'120);
  EXPECT_DOUBLE_EQ(disk["merged_reads_per_second"], 0);
  EXPECT_DOUBLE_EQ(disk["writes_per_second"], 0);
  EXPECT_TRUE(disk["write_latency_ms"].is_null()) << "nothing was written";
  EXPECT_DOUBLE_EQ(top["cpu"]["busy_share"], 1);
  EXPECT_DOUBLE_EQ(top["pressure"]["io"], 12.5);
  const Json& loader = top["loaders"][0];
  EXPECT_DOUBLE_EQ(loader["samples_per_second"], 2000);
  EXPECT_DOUBLE_EQ(loader["read_bytes_per_second"]["direct"], 2e6);
  EXPECT_NEAR(loader["stages"]["decode"]["busy_share"], 0.9, 1e-9);
  EXPECT_EQ(loader["queues"]["samples_to_decode"], 12);
  EXPECT_TRUE(loader["page_cache_hit_share"].is_null()) << "nothing came through it";
  EXPECT_DOUBLE_EQ(loader["data_cached"]["share"], 0.25);
  EXPECT_EQ(loader["read_latency"]["count"], 125);
}

TEST(Top, DrawsEachStageAndNothingThatATerminalObeys) {
  const std::string text = draw_top(busy_top(), 100, 50);
  for (const char* part : {"2,000 images/s", "decode", "[||", "90 %", "waited 75 %", "rank 1 of 2",
                           "nvme0n1", "12.5 %", "decode limits: 2 threads", "no answer",
                           "25 % of the data set", "131 us █ 262 us", "3 events", "all reads"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

/// Characters, of which some have several bytes.
std::size_t cells(std::string_view line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

TEST(Top, FitsAnyTerminal) {
  const Json top = busy_top();
  for (const std::size_t width : {0, 1, 2, 10, 20, 39, 40, 80, 300}) {
    for (const std::size_t height : {0, 1, 5, 100}) {
      const std::string text = draw_top(top, width, height);
      std::size_t lines = 0;
      for (std::size_t begin = 0; begin < text.size(); ++lines) {
        const std::size_t end = text.find('\n', begin);
        ASSERT_NE(end, std::string::npos);
        EXPECT_LE(cells(std::string_view(text).substr(begin, end - begin)),
                  std::max<std::size_t>(width, 1));
        begin = end + 1;
      }
      EXPECT_LE(lines, std::max<std::size_t>(height, 1));
    }
  }
}

TEST(Top, BreaksSentencesAndDoesNotCutThem) {
  Json top = busy_top();
  top["loaders"][0]["verdict"] = "a sentence of several words that does not fit into one line";
  top["gpus"] = {{"missing", "no driver"}};
  const std::string text = draw_top(top, 40, 100);
  EXPECT_THAT(text,
              HasSubstr("  a sentence of several words that does\n  not fit into one line\n"));
  EXPECT_THAT(text, HasSubstr("note: no GPU is seen: no driver\n"));
}

TEST(Top, LeavesOutIdleDevices) {
  Json top = busy_top();
  Json idle = top["devices"][0];
  idle["name"] = "loop0";
  idle["reads_per_second"] = 0;
  top["devices"].push_back(idle);
  EXPECT_EQ(draw_top(top, 100, 100).find("loop0"), std::string::npos);
  EXPECT_EQ(draw_top(top, 39, 100).find("loop0"), std::string::npos);
}

TEST(Top, OfAnEmptyRootSaysNothingAndDoesNotFail) {
  const testing::TempDir dir;
  const TopOptions options{{dir / "absent"}, dir.path(), {}, {}};
  const TopLook before = take_look(options);
  const Json top = top_between(before, take_look(options));
  EXPECT_THAT(top["devices"], IsEmpty());
  EXPECT_TRUE(top["cpu"].is_null());
  EXPECT_THAT(draw_top(top, 80, 20), HasSubstr("no loader of this user runs"));
}

TEST(Top, LeavesOutWhatAnswersNonsense) {
  const testing::TempDir dir;
  const auto answer = [](const std::string& body) {
    return [body](std::string_view) { return watch::Answer{200, "application/json", body}; };
  };
  const std::string folder = dir / "run";
  const watch::Server half(watch::listen_in(folder), answer("{\"counters\": {\"sam"));
  const watch::Server odd(watch::listen_in(folder),
                          answer(R"({"counters": [1], "facts": {"pid": "7"}, "verdict": 3})"));
  const watch::Server nobody(watch::listen_in(folder), answer(R"({"counters": {}})"));
  const watch::Server huge(
      watch::listen_in(folder),
      answer(R"({"counters": {"samples": 1e40}, "facts": {"pid": "7"}, "verdict": ""})"));
  const TopOptions options{{folder}, dir.path(), {}, {}};
  const TopLook look = take_look(options);
  const Json top = top_between(look, look);
  EXPECT_THAT(top["silent"], SizeIs(3));
  ASSERT_THAT(top["loaders"], SizeIs(1));
  EXPECT_EQ(top["loaders"][0]["samples_per_second"], 0);
  EXPECT_NO_THROW(draw_top(top, 80, 40));
}

TEST(PageCacheHits, AreWhatNoDeviceWasAskedFor) {
  watch::Snapshot early = loader_at(1, 0);
  watch::Snapshot late = loader_at(2, 0);
  late.stats.bytes_by_path[static_cast<std::size_t>(Path::kPageCache)] = 1000;
  LoaderLook before = look_of(early);
  LoaderLook after = look_of(late);
  before.device_bytes = 500;
  after.device_bytes = 750;
  EXPECT_DOUBLE_EQ(loader_between(before, after)["page_cache_hit_share"], 0.75);
  after.device_bytes = 90'000;  // Read ahead.
  EXPECT_DOUBLE_EQ(loader_between(before, after)["page_cache_hit_share"], 0);
  after.device_bytes = 100;  // Less than before: of another process by now.
  EXPECT_TRUE(loader_between(before, after)["page_cache_hit_share"].is_null());
  after.device_bytes.reset();
  EXPECT_TRUE(loader_between(before, after)["page_cache_hit_share"].is_null());
}

}  // namespace
}  // namespace feedrace::view
