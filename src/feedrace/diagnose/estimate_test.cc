// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/estimate.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"

namespace feedrace::diagnose {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// ViT-Large on 16 GPUs, as a case study tells it.
EstimateInput case_study() {
  EstimateInput input;
  input.before = {280, 0.38, 12, 48'000};
  input.after = {1120, 0.04, 3.2, 12'800};
  input.gpu_count = 16;
  return input;
}

auto derived(const char* what, const char* value) {
  return AllOf(Field(&Derived::what, HasSubstr(what)), Field(&Derived::value, HasSubstr(value)));
}

TEST(Estimate, SaysWhatFollowsFromACaseStudy) {
  const Estimate found = estimate(case_study());
  EXPECT_THAT(found.derived, Contains(derived("when it never waits", "451.6 images/s")));
  EXPECT_THAT(found.derived, Contains(derived("any loader can win", "1.61 x")));
  EXPECT_THAT(found.derived, Contains(derived("images of the whole run", "4,644,864,000")));
  EXPECT_THAT(found.derived, Contains(derived("a GPU hour", "10.42")));
  EXPECT_THAT(found.derived, Contains(derived("paid for waiting", "18,240")));
  ASSERT_EQ(found.outcomes.size(), 1U);
  EXPECT_NEAR(found.outcomes[0].speedup, 1.613, 0.001);
  EXPECT_NEAR(*found.outcomes[0].days, 7.44, 0.001);
  EXPECT_NEAR(*found.outcomes[0].cost, 29'760, 1);
  EXPECT_NEAR(*found.outcomes[0].wait_share, 0, 1e-12);
}

TEST(Estimate, NamesFiguresThatDoNotFollowFromEachOther) {
  EXPECT_THAT(estimate(case_study()).contradictions,
              ElementsAre(AllOf(HasSubstr("4 x the images/s does not follow"),
                                HasSubstr("gives 1.55 x, and none at all 1.61 x")),
                          AllOf(HasSubstr("4 x the images/s, but 3.75 x fewer days"),
                                HasSubstr("take 3 days and not 3.2"))));
}

TEST(Estimate, OfFiguresThatAgreeNothingIsSaidAgainst) {
  EstimateInput input;
  input.before = {280, 0.38, 12, 48'000};
  input.after = {433.5, 0.04, 7.75, 31'000};
  EXPECT_THAT(estimate(input).contradictions, IsEmpty());
}

TEST(Estimate, ARemedyIsCutByTheTrainingLoop) {
  EstimateInput input = case_study();
  input.after = {};
  input.remedies = {{"crop index", 350}, {"decoding on the GPU", 5000}};
  const Estimate found = estimate(input);
  ASSERT_EQ(found.outcomes.size(), 3U);
  EXPECT_DOUBLE_EQ(found.outcomes[1].images_per_second, 350);
  EXPECT_NEAR(*found.outcomes[1].wait_share, 1 - 350 / 451.6, 0.001);
  EXPECT_NEAR(*found.outcomes[1].days, 9.6, 0.001);
  EXPECT_NEAR(found.outcomes[2].images_per_second, 451.6, 0.1);
  EXPECT_NEAR(found.outcomes[2].speedup, 1.613, 0.001);
}

TEST(Estimate, DaysAndCostComeFromImagesAndPrice) {
  EstimateInput input;
  input.before.images_per_second = 1000;
  input.gpu_count = 8;
  input.image_count = 1'281'167;
  input.epoch_count = 90;
  input.price_per_gpu_hour = 2.5;
  const Estimate found = estimate(input);
  EXPECT_THAT(found.derived, Contains(derived("the run", "0.1668 days")));
  EXPECT_THAT(found.derived, Contains(derived("the run's cost", "80.07")));
  input.before.days = 2;
  EXPECT_THAT(estimate(input).contradictions, Contains(HasSubstr("2 days are given")));
}

TEST(Estimate, FiguresOutOfRangeAreRefused) {
  const auto refuses = [](const EstimateInput& input) {
    try {
      estimate(input);
    } catch (const Error& error) {
      return error.code() == ErrorCode::kInvalidArgument;
    }
    return false;
  };
  EXPECT_TRUE(refuses({}));
  EstimateInput input = case_study();
  input.before.wait_share = 1;
  EXPECT_TRUE(refuses(input));
  input = case_study();
  input.before.images_per_second = 0;
  EXPECT_TRUE(refuses(input));
  input = case_study();
  input.gpu_count = 0;
  EXPECT_TRUE(refuses(input));
  input = case_study();
  input.remedies = {{"x", -1}};
  EXPECT_TRUE(refuses(input));
}

}  // namespace
}  // namespace feedrace::diagnose
