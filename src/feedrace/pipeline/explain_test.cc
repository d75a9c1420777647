// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/explain.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/loader.h"
#include "feedrace/pipeline/run_watch.h"

namespace feedrace::pipeline {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;

std::string text_of(const JpegStats& jpeg) {
  verdict::Facts facts;
  facts.batches = 10;
  facts.wait_share = 0.9;
  facts.decode = verdict::StageFacts{2, 0.95, 0.97, 100, 103};
  return explain(facts, jpeg, Pipeline{}).to_text();
}

TEST(Explain, NamesTheKindOfMostPicturesWhenItIsLibjpegTurbos) {
  EXPECT_THAT(text_of({13, 87, 5, "progressive"}),
              HasSubstr("; 87 % of the JPEG pictures are left to libjpeg-turbo, "
                        "the last one: progressive; write them as baseline (jpegtran "
                        "-copy all -optimize IN > OUT)"));
  EXPECT_THAT(text_of({13, 87, 5, "CMYK"}), EndsWith("the last one: CMYK"));
  EXPECT_THAT(text_of({51, 49, 0, "progressive"}), Not(HasSubstr("libjpeg-turbo")));
  EXPECT_THAT(text_of({0, 100, 0, nullptr}), Not(HasSubstr("libjpeg-turbo")));  // As asked for.
  EXPECT_THAT(text_of({}), Not(HasSubstr("libjpeg-turbo")));
}

TEST(WaitCourse, FindsWhereWaitingEnded) {
  WaitCourse course;
  for (int i = 0; i < 100; ++i) course.add(0.9, 0.1, 8);  // 100 s of waiting.
  for (int i = 0; i < 400; ++i) course.add(0.01, 0.99, 64);
  const auto split = course.split();
  ASSERT_TRUE(split);
  EXPECT_NEAR(split->early_seconds, 100, 20);
  EXPECT_GT(split->early_wait_share, 0.7);
  EXPECT_NEAR(split->early_part, 90.0 / 500, 0.03);
  EXPECT_LT(split->late_wait_share, 0.05);
  EXPECT_NEAR(split->late_images_per_second, 64, 3);
}

TEST(WaitCourse, KeepsToItsMemoryAndForgetsNoTime) {
  WaitCourse course;
  for (int i = 0; i < 100'000; ++i) course.add(0.03, 0.01, 1);
  EXPECT_LE(course.stretches().size(), WaitCourse::kMostStretches);
  double seconds = 0;
  std::uint64_t samples = 0;
  for (const auto& one : course.stretches()) {
    seconds += one.seconds;
    samples += one.samples;
  }
  EXPECT_NEAR(seconds, 4000, 1e-3);
  EXPECT_EQ(samples, 100'000U);
}

TEST(WaitCourse, AFewStretchesHaveNoStart) {
  WaitCourse course;
  for (int i = 0; i < 3; ++i) course.add(1, 0, 1);
  EXPECT_FALSE(course.split());
}

TEST(RunWatch, BeforeTheFirstBatchThereAreNoFacts) {
  const RunWatch watch({});
  const verdict::Facts facts = watch.facts(Stats{}, Plan{});
  EXPECT_EQ(facts.batches, 0U);
  EXPECT_FALSE(facts.decode);
}

Stats stats_at(double seconds) {
  Stats stats;
  stats.batches = 100;
  stats.samples = static_cast<std::uint64_t>(1000 * seconds);
  stats.stages = {{"io", 1, 0.2 * seconds, 0.8 * seconds, 0.1 * seconds, stats.samples},
                  {"decode", 2, 1.9 * seconds, 0.1 * seconds, 1.8 * seconds, stats.samples},
                  {"consumer", 1, 0.4 * seconds, 0.6 * seconds, 0, 100}};
  return stats;
}

TEST(RunWatch, TellsWhatHappenedSinceItsFirstMark) {
  RunWatch watch({});
  watch.add(0.1, 0.0, 0.1, 2, 64, [] { return stats_at(5); });
  watch.add(0.1, 0.0, 0.1, 1, 64, [] { return stats_at(6); });
  const verdict::Facts facts = watch.facts(stats_at(15), Plan{});
  EXPECT_NEAR(facts.wait_share.value(), 0.6, 1e-9);
  EXPECT_NEAR(facts.decode.value().busy_share, 0.95, 1e-9);
  EXPECT_NEAR(facts.decode.value().images_per_cpu_second, 1000 / 1.8, 1e-6);
  EXPECT_NEAR(facts.decode.value().on_core_share.value(), 1.8 / 1.9, 1e-9);
  EXPECT_EQ(facts.ready_batches, 1.0);
}

constexpr double kPause = 0.06;
void pause() { std::this_thread::sleep_for(std::chrono::duration<double>(kPause)); }

TEST(RunWatch, LeavesOutWhatTheConsumerDoesBetweenEpochs) {
  const auto begun = Clock::now();
  RunWatch watch({});
  watch.add(0.1, 0.0, 0.1, 2, 64, [] { return stats_at(0.05); });
  const Stats then = stats_at(0.06);
  watch.leave(then);
  pause();
  watch.come_back([&] { return then; });
  // Meanwhile both threads waited, and tell of it now that it is over.
  Stats end = stats_at(0.15);
  end.stages[1].wait_seconds += 2 * kPause;
  watch.add(0.1, 0.0, 0.1, 1, 64, [&] { return end; });
  const verdict::Facts facts = watch.facts(end, Plan{});
  EXPECT_GE(facts.decode.value().busy_share, 0.95 - 1e-9);  // 0.59 with it.
  const double all = std::chrono::duration<double>(Clock::now() - begun).count();
  EXPECT_LE(facts.host.seconds, all - kPause);
  // Where the consumer was not away nothing is asked.
  watch.come_back([]() -> Stats { throw std::logic_error("asked"); });
}

TEST(RunWatch, EndsWithTheLastBatchUnlessOneIsWaitedFor) {
  const auto begun = Clock::now();
  RunWatch watch({});
  watch.add(0.1, 0.0, 0.1, 2, 64, [] { return stats_at(5); });
  watch.add(0.1, 0.0, 0.1, 2, 64, [] { return stats_at(6); });
  pause();
  const double seconds = watch.facts(stats_at(6), Plan{}).host.seconds;
  EXPECT_LE(seconds, std::chrono::duration<double>(Clock::now() - begun).count() - kPause);
  const RunWatch::Waiting waiting(watch);
  EXPECT_GE(watch.facts(stats_at(6), Plan{}).host.seconds, kPause);
}

TEST(RunWatch, TellsTheShareOfBadSamples) {
  RunWatch watch({});
  watch.add(0.1, 0.0, 0.1, 2, 64, [] { return stats_at(5); });
  Stats end = stats_at(6);
  end.bad_samples = 250;
  EXPECT_NEAR(watch.facts(end, Plan{}).bad_share, 0.25, 1e-9);
}

}  // namespace
}  // namespace feedrace::pipeline
