// SPDX-License-Identifier: Apache-2.0
#include "feedrace/watch/counters.h"

#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace::watch {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Snapshot busy_snapshot() {
  Snapshot snapshot;
  snapshot.stats.samples = 320;
  snapshot.stats.bytes_by_path[static_cast<std::size_t>(Path::kDirect)] = 4096;
  for (const std::uint64_t ns : {20'000, 40'000, 5'000'000}) {
    snapshot.stats.read_latency.record(ns);
  }
  snapshot.stats.stages = {{"io", 1, 0.5, 1.5, 0.25, 320}, {"decode", 2, 3, 1, 2.9, 320}};
  snapshot.stats.fallbacks = {{"a \"quoted\"\nsentence \\", 3}};
  snapshot.levels = {{"reads in flight", 7}};
  snapshot.verdict = "decode limits";
  snapshot.facts = {{"data", "/data/\"odd\"\n\xff"}};
  return snapshot;
}

TEST(Counters, AreNamedAsPrometheusAsks) {
  std::set<std::string> names;
  for (const Counter& counter : counters()) {
    const std::string name = counter.name;
    EXPECT_TRUE(names.insert(name).second) << name << " is there twice";
    EXPECT_FALSE(name.ends_with("_total")) << name << ": the text adds it";
    EXPECT_TRUE(name.ends_with(counter.unit)) << name << " does not say its unit";
    EXPECT_EQ(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos) << name;
    EXPECT_TRUE(std::string(counter.help).ends_with('.')) << name;
  }
}

TEST(OpenMetrics, HasEachCounterWithItsTypeAndEnds) {
  const std::string text = openmetrics(busy_snapshot());
  EXPECT_THAT(text, HasSubstr("# TYPE feedrace_samples counter\n"));
  EXPECT_THAT(text, HasSubstr("feedrace_samples_total 320\n"));
  EXPECT_THAT(text, HasSubstr("feedrace_read_bytes_total{path=\"direct\"} 4096\n"));
  EXPECT_THAT(text, HasSubstr("feedrace_stage_busy_seconds_total{stage=\"decode\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("feedrace_queue_length{queue=\"reads_in_flight\"} 7\n"));
  EXPECT_THAT(text, HasSubstr(R"(feedrace_loader_info{data="/data/\"odd\"\\x0a\\xff"} 1)"));
  EXPECT_THAT(text, Not(HasSubstr("shared_cache"))) << "there is none";
  EXPECT_TRUE(text.ends_with("# EOF\n"));
}

TEST(OpenMetrics, CountsLatenciesUpToEachEdge) {
  const std::string text = openmetrics(busy_snapshot());
  EXPECT_THAT(text, HasSubstr("feedrace_read_latency_seconds_bucket{le=\"1.6383e-05\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("feedrace_read_latency_seconds_bucket{le=\"3.2767e-05\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("feedrace_read_latency_seconds_bucket{le=\"6.5535e-05\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("feedrace_read_latency_seconds_bucket{le=\"+Inf\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("feedrace_read_latency_seconds_count 3\n"));
}

TEST(CountersJson, SaysTheSame) {
  const auto json = to_json(busy_snapshot());
  EXPECT_EQ(json["counters"]["samples"], 320);
  EXPECT_EQ(json["counters"]["stage_busy_seconds"]["io"], 0.5);
  EXPECT_EQ(json["counters"]["queue_length"]["reads_in_flight"], 7);
  EXPECT_EQ(json["counters"]["read_latency_seconds"]["count"], 3);
  EXPECT_EQ(json["verdict"], "decode limits");
  EXPECT_EQ(json["fallbacks"][0]["count"], 3);
  EXPECT_TRUE(json["facts"].contains("data_hex")) << "not UTF-8";
  EXPECT_NO_THROW(static_cast<void>(json.dump()));
}

TEST(SamplePlaces, SurviveJson) {
  const std::vector<SamplePlace> places = {{"/data/a.tar", 512, 100}, {"/data/\xff.jpg", 0, 0}};
  const auto back = places_from_json(nlohmann::json::parse(to_json(places).dump()));
  ASSERT_TRUE(back.has_value());
  ASSERT_EQ(back->size(), 2U);
  EXPECT_EQ((*back)[0].offset_bytes, 512U);
  EXPECT_EQ((*back)[0].size_bytes, 100U);
  EXPECT_EQ((*back)[1].path, places[1].path);
}

TEST(SamplePlaces, AreNotMadeOfNonsense) {
  for (const char* text : {"{}", "7", "[7]", "[[1, 2, 3]]", R"([["a", -1, 3]])", R"([["a", 1]])"}) {
    EXPECT_FALSE(places_from_json(nlohmann::json::parse(text)).has_value()) << text;
  }
}

}  // namespace
}  // namespace feedrace::watch
