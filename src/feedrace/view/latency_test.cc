// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/latency.h"

#include <cstdint>
#include <string>

#include <gtest/gtest.h>

#include "feedrace/stats.h"
#include "feedrace/watch/counters.h"

namespace feedrace::view {
namespace {

nlohmann::json told(const LatencyHistogram& latency) { return watch::to_json(latency); }

LatencyHistogram of(std::initializer_list<std::uint64_t> micros) {
  LatencyHistogram latency;
  for (const std::uint64_t each : micros) latency.record(each * 1000);
  return latency;
}

TEST(Latency, BetweenTwoTellingsIsWhatCame) {
  LatencyHistogram latency = of({20, 20, 5000});
  const nlohmann::json before = told(latency);
  latency.merge(of({20, 100}));
  const auto between = latency_between(before, told(latency));
  EXPECT_EQ(between["count"], 2);
  EXPECT_EQ(latency_columns(between), "16 us █ █ 131 us");
}

TEST(Latency, OfANewLoaderIsAllThatCame) {
  EXPECT_EQ(latency_between(nullptr, told(of({20, 30})))["count"], 2);
}

TEST(Latency, ColumnsAreAsHighAsTheirShare) {
  LatencyHistogram latency = of({5000, 5000, 20'000});
  for (int i = 0; i < 8; ++i) latency.merge(of({40}));
  EXPECT_EQ(latency_columns(told(latency)), "33 us █      ▂ ▁ 34 ms");
}

TEST(Latency, OfNothingHasNoColumns) {
  EXPECT_EQ(latency_columns(told({})), "");
  EXPECT_EQ(latency_columns(nullptr), "");
  EXPECT_EQ(latency_columns(nlohmann::json::parse(R"({"buckets": [[1], 3, [1, "x"]]})")), "");
  EXPECT_EQ(latency_between(nlohmann::json(7), nlohmann::json::parse("[]"))["count"], 0);
}

TEST(Latency, OfAHistogramThatShrankIsNeverNegative) {
  const auto between = latency_between(told(of({20, 20})), told(of({20})));
  EXPECT_EQ(between["count"], 0);
  EXPECT_EQ(latency_columns(between), "");
}

TEST(DurationText, HasTwoDigitsWhereTheyHelp) {
  EXPECT_EQ(duration_text(16.383e-6), "16 us");
  EXPECT_EQ(duration_text(1.048575e-3), "1.0 ms");
  EXPECT_EQ(duration_text(0.0168), "17 ms");
  EXPECT_EQ(duration_text(2.147), "2.1 s");
}

}  // namespace
}  // namespace feedrace::view
