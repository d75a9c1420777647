// SPDX-License-Identifier: Apache-2.0
// A pipeline gives the same tensor whether its steps are fused or run one by one.
#include "feedrace/transform/sample_worker.h"

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/random.h"
#include "feedrace/testing/images.h"

namespace feedrace::transform {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

struct Tensor {
  ops::ImageSize size;
  std::vector<std::byte> bytes;
};

std::size_t tensor_bytes(const Pipeline& pipeline, ops::ImageSize size) {
  return std::size_t{3} * size.width_px * size.height_px * size_of(pipeline.dtype);
}

Result<Tensor> work(const Pipeline& pipeline, const std::string& jpeg, std::uint64_t sample) {
  SampleWorker worker(pipeline, /*seed=*/7, {});
  Tensor tensor;
  const auto done = worker.run(bytes_of(jpeg), /*draw=*/2, sample, [&](ops::ImageSize size) {
    tensor.size = size;
    tensor.bytes.resize(tensor_bytes(pipeline, size));
    return tensor.bytes.data();
  });
  if (!done) return done.error();
  return tensor;
}

/// Of a pipeline that is one pass: its box read, and the pass over that.
Tensor work_on_box(const Pipeline& pipeline, const std::string& jpeg, std::uint64_t sample) {
  SampleWorker worker(pipeline, /*seed=*/7, {});
  const auto drawn = worker.draw(bytes_of(jpeg), /*draw=*/2, sample);
  EXPECT_TRUE(drawn) << drawn.error().message;
  const ops::CropBox& box = drawn->head.crop();
  std::vector<std::byte> rgb(std::size_t{3} * box.width_px * box.height_px);
  EXPECT_TRUE(worker.read_box(drawn->head, rgb));
  Tensor tensor{drawn->head.output(), {}};
  tensor.bytes.resize(tensor_bytes(pipeline, tensor.size));
  worker.run_box(drawn->head, rgb.data(), std::size_t{3} * box.width_px, tensor.bytes.data());
  return tensor;
}

/// The whole picture decoded, each step a pass of its own.
Tensor work_step_by_step(const Pipeline& pipeline, const std::string& jpeg, std::uint64_t sample) {
  decode::ImageDecoder decoder;
  const auto info = decoder.open(bytes_of(jpeg));
  EXPECT_TRUE(info);
  StepRunner runner;
  EXPECT_TRUE(decoder.read_region(info->whole(), runner.begin({info->width_px, info->height_px}),
                                  std::size_t{3} * info->width_px));
  const SampleKey key{7, 2, sample};
  const auto streams = streams_of(pipeline.steps);
  for (std::size_t i = 0; i < pipeline.steps.size(); ++i) {
    const auto drawn = draw_step(pipeline.steps[i], streams[i], runner.size(), key);
    EXPECT_TRUE(drawn) << drawn.error().message;
    EXPECT_TRUE(runner.run(*drawn, key));
  }
  Tensor tensor{runner.size(), {}};
  tensor.bytes.resize(tensor_bytes(pipeline, tensor.size));
  ops::Converter({pipeline.dtype, pipeline.layout, pipeline.mean, pipeline.std})
      .convert(runner.image(), tensor.bytes.data());
  for (std::size_t i = 0; i < pipeline.erasings.size(); ++i) {
    const DrawnErasing drawn = draw_erasing(pipeline, i, tensor.size, key);
    if (drawn.values) {
      ops::erase(tensor.bytes.data(), pipeline.dtype, pipeline.layout, tensor.size, drawn.erasing,
                 *drawn.values);
    }
  }
  return tensor;
}

/// Steps in any order, with any values, that fit the pictures below.
Step random_step(SampleRandom& random, std::uint32_t id) {
  const auto px = [&](std::uint64_t low, std::uint64_t high) {
    return static_cast<std::uint32_t>(low + random.below(high - low + 1));
  };
  switch (random.below(10)) {
    case 0:
      return RandomResizedCrop{{px(1, 40), px(1, 40)}, {0.1, 0.9}, {0.5, 2.0}};
    case 1:
      return Resize{Resize::By::kShorterSide, {}, px(20, 50), 0};
    case 2:
      return Resize{Resize::By::kSize, {px(20, 60), px(20, 60)}, 0, 0};
    case 3:
      return CenterCrop{{px(20, 70), px(20, 70)}};
    case 4:
      return Crop{{px(1, 20), px(1, 20)}, Number::uniform(0, 1, id), Number::constant(0.3)};
    case 5:
      return RandomCrop{{px(1, 20), px(1, 20)}};
    case 6:
      return Flip{Number::coin_flip(0.5, id), Number::constant(0)};
    case 7:
      return Flip{Number::coin_flip(0.5, id), Number::coin_flip(0.5, id + 1)};
    case 8:
      return Pad{px(0, 9), px(0, 9), px(0, 9), px(0, 9)};
    default:
      return ColorJitter{
          {{0.5, 1.5}}, {{0.5, 1.5}}, {{0.0, 2.0}}, {{-0.5, 0.5}}, Number::coin_flip(0.8, id)};
  }
}

TEST(SampleWorker, GivesWhatTheStepsGiveOneByOne) {
  SampleRandom random(1, 2, 3, 4);
  std::size_t fused = 0;
  for (std::uint64_t round = 0; round < 400; ++round) {
    Pipeline pipeline;
    bool is_small = false;  // After a small crop no other crop fits.
    for (std::uint64_t i = random.below(5); i > 0; --i) {
      Step step = random_step(random, static_cast<std::uint32_t>(2 * i));
      const bool crops =
          std::holds_alternative<Crop>(step) || std::holds_alternative<RandomCrop>(step);
      if (crops && is_small) continue;
      is_small = is_small || crops || std::holds_alternative<RandomResizedCrop>(step);
      pipeline.steps.push_back(std::move(step));
    }
    const DType dtypes[] = {DType::kUint8, DType::kFloat16, DType::kFloat32};
    pipeline.dtype = dtypes[random.below(3)];
    pipeline.layout = random.below(2) == 0 ? Layout::kChw : Layout::kHwc;
    if (pipeline.dtype != DType::kUint8) {
      pipeline.mean = {0.4F, 0.5F, 0.6F};
      pipeline.std = {0.2F, 0.3F, 0.25F};
    }
    if (random.below(3) == 0) pipeline.erasings = {RandomErasing{0.9, {0.1, 0.4}}};
    pipeline.check();
    const std::string jpeg = testing::make_jpeg(30 + static_cast<std::uint32_t>(random.below(60)),
                                                30 + static_cast<std::uint32_t>(random.below(60)),
                                                static_cast<std::uint32_t>(round));
    const auto got = work(pipeline, jpeg, round);
    ASSERT_TRUE(got) << pipeline.describe() << ": " << got.error().message;
    const Tensor expected = work_step_by_step(pipeline, jpeg, round);
    ASSERT_EQ(got->size.width_px, expected.size.width_px) << pipeline.describe();
    ASSERT_EQ(got->size.height_px, expected.size.height_px) << pipeline.describe();
    ASSERT_EQ(got->bytes, expected.bytes) << pipeline.describe();
    if (pipeline.unfused().empty() && pipeline.erasings.empty()) {
      ASSERT_EQ(work_on_box(pipeline, jpeg, round).bytes, expected.bytes) << pipeline.describe();
    }
    if (const auto size = pipeline.output_size()) {
      EXPECT_EQ(size->width_px, got->size.width_px) << pipeline.describe();
      EXPECT_EQ(size->height_px, got->size.height_px) << pipeline.describe();
    }
    fused += pipeline.fused_count();
  }
  EXPECT_GT(fused, 300U);
}

TEST(SampleWorker, DrawsTheSameForARecipeWhateverStandsBehindIt) {
  Pipeline pipeline = Pipeline::recipe("imagenet-train");
  const std::string jpeg = testing::make_jpeg(90, 70, 5);
  const auto plain = work(pipeline, jpeg, 11);
  pipeline.steps.emplace_back(Grayscale{Number::constant(0)});  // Changes nothing, is not fused.
  const auto behind = work(pipeline, jpeg, 11);
  ASSERT_TRUE(plain && behind);
  EXPECT_EQ(plain->bytes, behind->bytes);
}

TEST(SampleWorker, SaysWhichCropLeavesThePicture) {
  Pipeline pipeline;
  pipeline.steps = {Crop{{50, 20}}};
  const auto got = work(pipeline, testing::make_jpeg(40, 40, 1), 0);
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("crop 50 x 20 leaves the picture of 40 x 40 px"));
}

TEST(SampleWorker, RefusesAPictureThatWouldBecomeTooLarge) {
  Pipeline pipeline;
  pipeline.steps = {Resize{Resize::By::kShorterSide, {}, 5000, 0}};
  SampleWorker worker(pipeline, 0, {.max_pixels = 1'000'000});
  const auto got = worker.run(bytes_of(testing::make_jpeg(40, 40, 1)), 0, 0, [](ops::ImageSize) {
    ADD_FAILURE() << "asked for room";
    return nullptr;
  });
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("would become 5000 x 5000 px"));
}

class Throwing : public ops::Op {
 public:
  std::string_view name() const noexcept override { return "throwing"; }
  ops::ImageSize plan(ops::ImageSize input) const override { return input; }
  void run(const ops::ConstImageView&, const ops::ImageView&, SampleRandom&) const override {
    throw std::runtime_error("no good");
  }
};

TEST(SampleWorker, NamesTheOpThatThrew) {
  Pipeline pipeline;
  pipeline.steps = {CenterCrop{{8, 8}}, std::make_shared<Throwing>()};
  const auto got = work(pipeline, testing::make_jpeg(40, 40, 1), 0);
  ASSERT_FALSE(got);
  EXPECT_THAT(got.error().message, HasSubstr("op throwing threw: no good"));
}

}  // namespace
}  // namespace feedrace::transform
