// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/rehearsal.h"

#include <atomic>
#include <memory>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/testing/images.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::tools {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kSteps = 7;

/// 40 pictures, and a global batch of 6: six steps, and four samples more.
LoaderOptions options_in(const testing::TempDir& dir) {
  for (std::uint32_t i = 0; i < 40; ++i) {
    dir.write(fmt::format("pictures/c{}/{:03}.jpg", i % 2, i), testing::make_jpeg(32, 28, i));
  }
  LoaderOptions options;
  options.sources = {dir / "pictures"};
  std::get<RandomResizedCrop>(options.pipeline.steps.front()).size = {16, 16};
  options.batch_size = 6;
  options.last_batch = LastBatch::kPad;
  return options;
}

/// Changes the picture behind so many runs of it: an op that is no function of its input.
class ForgetfulOp : public ops::Op {
 public:
  explicit ForgetfulOp(int good_runs) : good_runs_(good_runs) {}
  std::string_view name() const noexcept override { return "forgetful"; }
  ops::ImageSize plan(ops::ImageSize input) const override { return input; }
  void run(const ops::ConstImageView& input, const ops::ImageView& output,
           SampleRandom& /*random*/) const override {
    const int number = run_++;
    for (std::uint32_t y = 0; y < input.height_px; ++y) {
      for (std::uint32_t x = 0; x < 3 * input.width_px; ++x) {
        output.rgb[y * output.row_bytes + x] = input.rgb[y * input.row_bytes + x];
      }
    }
    if (number >= good_runs_) output.rgb[0] ^= 0xff;
  }

 private:
  int good_runs_;
  mutable std::atomic<int> run_ = 0;
};

TEST(Rehearsal, RunsWithStopsGiveWhatTheUnbrokenOneGave) {
  const testing::TempDir dir;
  int batches = 0;
  Rehearsal rehearsal(options_in(dir), 1, 0, {[](Loader*) {}, [&] { ++batches; }});
  EXPECT_EQ(rehearsal.steps(), kSteps);
  EXPECT_EQ(rehearsal.places(), 40u);
  for (std::uint64_t run = 0; run < 10; ++run) EXPECT_TRUE(rehearsal.run(run, run));
  EXPECT_FALSE(rehearsal.difference());
  EXPECT_GE(rehearsal.stops(), 10u);
  EXPECT_EQ(static_cast<std::uint64_t>(batches), rehearsal.batches() + kSteps);
}

TEST(Rehearsal, FewerStepsThanTheEpochHasAreEnough) {
  const testing::TempDir dir;
  Rehearsal rehearsal(options_in(dir), 0, 3, {});
  EXPECT_EQ(rehearsal.places(), 18u);
  EXPECT_TRUE(rehearsal.run(0, 5));
}

TEST(Rehearsal, AnOpThatDoesNotRepeatItselfIsFound) {
  const testing::TempDir dir;
  LoaderOptions options = options_in(dir);
  options.pipeline.steps.emplace_back(std::make_shared<ForgetfulOp>(200));
  Rehearsal rehearsal(options, 0, 2, {});
  std::uint64_t run = 0;
  while (run < 50 && rehearsal.run(run, run)) ++run;
  ASSERT_TRUE(rehearsal.difference());
  const RehearsalDifference& difference = *rehearsal.difference();
  EXPECT_EQ(difference.run, run);
  EXPECT_LT(difference.position, 12u);
  EXPECT_EQ(difference.problem, "its pixels differ");
  ASSERT_TRUE(difference.expected && difference.found);
  EXPECT_EQ(difference.expected->sample, difference.found->sample);
  EXPECT_NE(difference.expected->pixels, difference.found->pixels);
  EXPECT_THAT(to_text(difference.schedule), HasSubstr("steps 0-"));
}

TEST(Rehearsal, TheSameSeedGivesTheSameSchedule) {
  const testing::TempDir dir;
  const auto schedule_of = [&](std::uint64_t seed) {
    LoaderOptions options = options_in(dir);
    options.pipeline.steps.emplace_back(std::make_shared<ForgetfulOp>(40));
    Rehearsal rehearsal(options, 0, 0, {});
    EXPECT_FALSE(rehearsal.run(0, seed));
    return to_text(rehearsal.difference()->schedule);
  };
  const std::string first = schedule_of(3);
  EXPECT_EQ(first, schedule_of(3));
  EXPECT_NE(first, schedule_of(4));
}

}  // namespace
}  // namespace feedrace::tools
