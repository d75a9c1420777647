// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/explain.h"

#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace::pipeline {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Stages that were busy, and waited, so many seconds.
struct Seconds {
  double busy;
  double wait;
};

Stats stats_of(Seconds io, Seconds decode, double decode_cpu, Seconds consumer) {
  Stats stats;
  stats.batches = 10;
  stats.stages = {{"io", 1, io.busy, io.wait, 0, 640},
                  {"decode", 2, decode.busy, decode.wait, decode_cpu, 640},
                  {"consumer", 1, consumer.busy, consumer.wait, 0, 10}};
  return stats;
}

std::string verdict_of(const Stats& stats) { return explain(stats, Pipeline{}); }

TEST(Explain, ABusyConsumerLimits) {
  EXPECT_THAT(verdict_of(stats_of({1, 9}, {4, 16}, 4, {9.8, 0.2})),
              StartsWith("the consumer limits: the consumer waited 2 % of the time"));
}

TEST(Explain, BusyDecodeThreadsOnTheirOwnCoresLimit) {
  const std::string verdict = verdict_of(stats_of({1, 9}, {19, 1}, 18.5, {1, 9}));
  EXPECT_THAT(verdict, StartsWith("decode limits"));
  EXPECT_THAT(verdict, HasSubstr("2 decode threads were 95 % busy"));
}

TEST(Explain, BusyDecodeThreadsWithoutCoresLackCores) {
  EXPECT_THAT(verdict_of(stats_of({1, 9}, {19, 1}, 9, {1, 9})), StartsWith("cores limit"));
}

TEST(Explain, IdleDecodeThreadsBehindABusyReaderMeanStorage) {
  EXPECT_THAT(verdict_of(stats_of({9.5, 0.5}, {4, 16}, 4, {1, 9})), StartsWith("storage limits"));
}

TEST(Explain, IdleDecodeThreadsBehindAnIdleReaderMeanAFewSlowSamples) {
  EXPECT_THAT(verdict_of(stats_of({0.1, 9.9}, {10, 10}, 10, {1, 9})),
              StartsWith("a few slow samples limit"));
}

TEST(Explain, ABusyStageOfTheGpuLimits) {
  Stats stats = stats_of({1, 9}, {4, 16}, 4, {1, 9});
  stats.stages.push_back({"device", 1, 9, 1, 3, 10});
  EXPECT_THAT(verdict_of(stats),
              ::testing::AllOf(StartsWith("the GPU's stage limits"), HasSubstr("90 % busy")));
  stats.stages.back().busy_seconds = 1;
  EXPECT_THAT(verdict_of(stats), Not(HasSubstr("GPU")));
}

TEST(Explain, WithoutABatchThereIsNoVerdict) {
  EXPECT_THAT(verdict_of(Stats{}), StartsWith("no verdict yet"));
}

TEST(Explain, AFewBatchesAreTooShortToTell) {
  // The first batch's wait alone looks like a few slow samples, storage, or a consumer at rest.
  for (const Stats& whole :
       {stats_of({0.1, 9.9}, {10, 10}, 10, {1, 9}), stats_of({9.5, 0.5}, {4, 16}, 4, {1, 9}),
        stats_of({1, 9}, {19, 1}, 18.5, {1, 9}), stats_of({1, 9}, {4, 16}, 4, {9.8, 0.2})}) {
    Stats stats = whole;
    stats.batches = 1;
    EXPECT_THAT(
        verdict_of(stats),
        StartsWith("the run is too short to tell what limits: after 1 batch, the consumer"));
    stats.batches = 4;
    EXPECT_THAT(verdict_of(stats), HasSubstr("after 4 batches, "));
    stats.batches = 5;
    EXPECT_THAT(verdict_of(stats), Not(HasSubstr("too short")));
  }
}

}  // namespace
}  // namespace feedrace::pipeline
