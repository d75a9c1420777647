// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline.h"

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/error.h"
#include "feedrace/transform/step_trace.h"

namespace feedrace::transform {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(Pipeline, RecipesSayWhatTheyDo) {
  // Part of states: another text is another pipeline.
  EXPECT_EQ(Pipeline::recipe("imagenet-train").describe(),
            "decode > random_resized_crop 224 > flip 0.5 > normalize > float16 CHW");
  EXPECT_EQ(Pipeline::recipe("imagenet-val").describe(),
            "decode > resize 256 > center_crop 224 > normalize > float16 CHW");
  EXPECT_EQ(Pipeline::recipe("read").describe(), "read only, nothing is decoded");
  for (const std::string& name : Pipeline::recipe_names()) {
    EXPECT_NO_THROW(Pipeline::recipe(name).check());
    EXPECT_THAT(Pipeline::recipe(name).unfused(), IsEmpty());
  }
}

TEST(Pipeline, TextShowsWhatIsNotUsual) {
  Pipeline pipeline;
  pipeline.steps = {RandomResizedCrop{{32, 16}, {0.5, 1}, {3.0 / 4, 4.0 / 3}},
                    Resize{Resize::By::kShorterSide, {}, 40, 80},
                    Resize{Resize::By::kLongerSide, {}, 40, 0},
                    Resize{Resize::By::kSize, {20, 30}, 0, 0},
                    Crop{{8, 8}, Number::uniform(0, 1, 3), Number::constant(0.5)},
                    Flip{Number::constant(0), Number::coin_flip(0.25, 1)},
                    Pad{1, 2, 3, 4, {5, 6, 7}, ops::PadMode::kConstant},
                    Pad{1, 1, 1, 1, {}, ops::PadMode::kReflect},
                    ColorJitter{{{0.6, 1.4}}, {}, {}, {{-0.1, 0.1}}, Number::coin_flip(0.8, 2)}};
  pipeline.mean = {0.5F, 0.5F, 0.5F};
  pipeline.std = {0.25F, 0.25F, 0.25F};
  pipeline.erasings = {RandomErasing{.probability = 0.25, .is_noise = true}};
  EXPECT_EQ(
      pipeline.describe(),
      "decode > random_resized_crop 16x32 scale (0.5, 1) > resize 40 longest 80 (not fused) > "
      "resize longer 40 (not fused) > resize to 30x20 (not fused) > crop 8 at (uniform(0, "
      "1)#3, 0.5) (not fused) > flip vertical 0.25#1 (not fused) > pad (1, 2, 3, 4) fill (5, "
      "6, 7) (not fused) > pad (1, 1, 1, 1) reflect (not fused) > color_jitter brightness "
      "(0.6, 1.4) hue (-0.1, 0.1) apply 0.8#2 (not fused) > normalize mean (0.5, 0.5, 0.5) "
      "std (0.25, 0.25, 0.25) > random_erasing 0.25 noise > float16 CHW");
}

TEST(Pipeline, SaysWhatIsNotFusedAndWhy) {
  Pipeline pipeline;
  pipeline.steps = {Flip{Number::coin_flip(), {}}, RandomResizedCrop{}, CenterCrop{}};
  EXPECT_EQ(pipeline.fused_count(), 1U);
  EXPECT_THAT(pipeline.unfused(),
              ElementsAre(HasSubstr("random_resized_crop is not fused: the picture is flipped"),
                          HasSubstr("center_crop is not fused: it stands behind random_resized")));
  const auto reason = [](Step step) {
    Pipeline one;
    one.steps = {Resize{}, std::move(step)};
    const auto sentences = one.unfused();
    return sentences.empty() ? "" : sentences.front();
  };
  EXPECT_THAT(reason(Resize{}), HasSubstr("resized before"));
  EXPECT_THAT(reason(Flip{{}, Number::coin_flip()}), HasSubstr("top to bottom"));
  EXPECT_THAT(reason(Pad{1, 1, 1, 1, {9, 0, 0}}), HasSubstr("not black"));
  EXPECT_THAT(reason(ColorJitter{}), HasSubstr("whole picture"));
  EXPECT_THAT(reason(Grayscale{}), HasSubstr("channels"));
  EXPECT_THAT(reason(Pad{1, 1, 1, 1}), IsEmpty());
  EXPECT_THAT(reason(RandomCrop{{8, 8}}), IsEmpty());
  const auto behind_crop = [](Step step) {
    Pipeline one;
    one.steps = {CenterCrop{{20, 20}}, std::move(step)};
    const auto sentences = one.unfused();
    return sentences.empty() ? "" : sentences.front();
  };
  EXPECT_THAT(behind_crop(Pad{1, 1, 1, 1}), HasSubstr("cut before"));
  EXPECT_THAT(behind_crop(CenterCrop{{21, 8}}), HasSubstr("reaches beyond"));
  EXPECT_THAT(behind_crop(CenterCrop{{20, 8}}), IsEmpty());
  Pipeline cut;
  cut.steps = {CenterCrop{}, Resize{}};
  EXPECT_THAT(cut.unfused(), ElementsAre(HasSubstr("crop after resizing")));
}

TEST(Pipeline, KnowsItsOutputSizeWhereThereIsOne) {
  const auto size = [](std::vector<Step> steps) {
    Pipeline pipeline;
    pipeline.steps = std::move(steps);
    const auto known = pipeline.output_size();
    return known ? std::vector{known->width_px, known->height_px} : std::vector<std::uint32_t>{};
  };
  EXPECT_THAT(size({}), IsEmpty());
  EXPECT_THAT(size({Resize{}}), IsEmpty());
  EXPECT_THAT(size({Resize{}, CenterCrop{{8, 9}}}), ElementsAre(8, 9));
  EXPECT_THAT(size({CenterCrop{{8, 9}}, Pad{1, 2, 3, 4}}), ElementsAre(12, 15));
  EXPECT_THAT(size({CenterCrop{{8, 16}}, Resize{Resize::By::kShorterSide, {}, 4, 0}}),
              ElementsAre(4, 8));
  EXPECT_THAT(size({Pad{1, 2, 3, 4}}), IsEmpty());
  EXPECT_THAT(size({Resize{Resize::By::kSize, {5, 6}, 0, 0}, Flip{}}), ElementsAre(5, 6));
  Pipeline too_small;
  too_small.steps = {CenterCrop{{8, 8}}, RandomCrop{{9, 9}}, Flip{}};
  EXPECT_THAT(size(too_small.steps), ElementsAre(9, 9));
  too_small.steps = {CenterCrop{{4, 4}}, Pad{4, 4, 4, 4, {}, ops::PadMode::kReflect}};
  EXPECT_THROW(too_small.check(), Error);
}

TEST(Pipeline, TrainsWhereItCropsAtRandom) {
  const auto at_random = [](Step step) {
    Pipeline pipeline;
    pipeline.steps = {std::move(step)};
    return pipeline.crops_at_random();
  };
  EXPECT_TRUE(at_random(RandomResizedCrop{}));
  EXPECT_TRUE(at_random(RandomCrop{{1, 1}}));
  EXPECT_TRUE(at_random(Crop{{1, 1}, Number::uniform(0, 1), Number::constant(0)}));
  EXPECT_FALSE(at_random(Crop{{1, 1}}));
  EXPECT_FALSE(at_random(Flip{Number::coin_flip(), {}}));
}

std::string refusal(const std::function<void(Pipeline&)>& spoil) {
  Pipeline pipeline = Pipeline::recipe("imagenet-train");
  spoil(pipeline);
  try {
    pipeline.check();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "taken";
}

TEST(Pipeline, ChecksEachValueAndSaysWhatIsAllowed) {
  const auto step = [](Step bad) {
    return refusal([&](Pipeline& pipeline) { pipeline.steps = {std::move(bad)}; });
  };
  EXPECT_THAT(step(RandomResizedCrop{{0, 8}}), HasSubstr("width is 0 px; it must be from 1 to"));
  EXPECT_THAT(step(RandomResizedCrop{{8, 8}, {0.5, 0.1}}), HasSubstr("scale is (0.5, 0.1)"));
  EXPECT_THAT(step(RandomResizedCrop{{8, 8}, {0.1, 1.5}}), HasSubstr("high <= 1"));
  EXPECT_THAT(step(RandomResizedCrop{{8, 8}, {0.1, 1}, {0, 1}}), HasSubstr("ratio is (0, 1)"));
  EXPECT_THAT(step(Resize{Resize::By::kShorterSide, {}, 0, 0}), HasSubstr("resize size is 0 px"));
  EXPECT_THAT(step(Resize{Resize::By::kShorterSide, {}, 8, 8}), HasSubstr("not above"));
  EXPECT_THAT(step(CenterCrop{{8, 99999}}), HasSubstr("height is 99999 px"));
  EXPECT_THAT(step(Crop{{8, 8}, Number::constant(1.5)}), HasSubstr("crop x is 1.5"));
  EXPECT_THAT(step(Crop{{8, 8}, Number::uniform(0.5, 0.1)}), HasSubstr("crop x is (0.5, 0.1)"));
  EXPECT_THAT(step(Flip{Number::coin_flip(1.5), {}}), HasSubstr("probability is (1.5, 1.5)"));
  EXPECT_THAT(step(Flip{Number::constant(NAN), {}}), HasSubstr("flip horizontal is nan"));
  EXPECT_THAT(step(Pad{20000}), HasSubstr("20000 px"));
  EXPECT_THAT(step(ColorJitter{{{-1, 1}}}), HasSubstr("brightness"));
  EXPECT_THAT(step(ColorJitter{{}, {}, {}, {{-1, 1}}}), HasSubstr("hue"));
  EXPECT_THAT(step(std::shared_ptr<const ops::Op>()), HasSubstr("null"));
  EXPECT_THAT(refusal([](Pipeline& p) { p.std = {1, 0, 1}; }), HasSubstr("std"));
  EXPECT_THAT(refusal([](Pipeline& p) { p.dtype = DType::kUint8; }), HasSubstr("uint8"));
  EXPECT_THAT(refusal([](Pipeline& p) { p.erasings = {RandomErasing{1.5}}; }),
              HasSubstr("probability"));
  EXPECT_THAT(refusal([](Pipeline& p) { p.reads_only = true; }), HasSubstr("only reads"));
}

TEST(Trace, NamesEveryDrawOfASample) {
  Pipeline pipeline = Pipeline::recipe("imagenet-train");
  pipeline.steps.emplace_back(ColorJitter{{{0.5, 1.5}}, {}, {}, {}});
  pipeline.erasings = {RandomErasing{1.0}};
  const SampleKey key{3, 1, 9};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  ASSERT_TRUE(trace_steps(pipeline, {100, 80}, key, list));
  ASSERT_EQ(list.size(), 4U);
  const auto crop = draw_step(pipeline.steps[0], streams_of(pipeline.steps)[0], {100, 80}, key);
  ASSERT_TRUE(crop);
  const ops::CropBox box = std::get<Resampling>(*crop).box;
  EXPECT_EQ(list[0]["box"], nlohmann::json({box.x_px, box.y_px, box.width_px, box.height_px}));
  EXPECT_EQ(list[1]["horizontal"], value_of(Number::coin_flip(), key) != 0);
  EXPECT_GE(list[2]["brightness"], 0.5);
  EXPECT_TRUE(list[2]["contrast"].is_null());
  EXPECT_EQ(list[3]["op"], "random_erasing");
  EXPECT_EQ(list[3]["box"].size(), 4U);
}

TEST(Draws, OfOneIdAreTheSameAndOfTwoAreNot) {
  const SampleKey key{1, 2, 3};
  EXPECT_EQ(value_of(Number::uniform(0, 1, 4), key), value_of(Number::uniform(0, 1, 4), key));
  EXPECT_NE(value_of(Number::uniform(0, 1, 4), key), value_of(Number::uniform(0, 1, 5), key));
  EXPECT_EQ(value_of(Number::constant(0.25), key), 0.25);
}

TEST(Draws, OfStepsHaveStreamsOfTheirOwn) {
  const std::vector<Step> steps = {RandomResizedCrop{},
                                   RandomResizedCrop{},
                                   ColorJitter{},
                                   RandomCrop{{1, 1}},
                                   std::shared_ptr<const ops::Op>(),
                                   std::shared_ptr<const ops::Op>()};
  EXPECT_THAT(streams_of(steps), ElementsAre(1, 0x10001, 3, 5, 16, 17));
}

}  // namespace
}  // namespace feedrace::transform
