// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/fused_pass.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/op.h"
#include "feedrace/ops/random_pictures.h"
#include "feedrace/ops/reference.h"

namespace feedrace::ops {
namespace {

std::vector<TensorFormat> all_formats() {
  std::vector<TensorFormat> formats;
  for (const DType dtype : {DType::kUint8, DType::kFloat16, DType::kFloat32}) {
    for (const Layout layout : {Layout::kChw, Layout::kHwc}) {
      formats.push_back(imagenet(dtype, layout));
    }
  }
  return formats;
}

/// How rows are handed over.
struct Push {
  std::uint32_t rows = 0;         ///< At a time; 0: as `rows_wanted()` says.
  std::size_t padding_bytes = 0;  ///< Behind each row.
};

/// Copies the pass's source out of `crop` into rows that end where their memory ends, so that the
/// address sanitizer sees a read behind the last one.
std::vector<std::byte> run(FusedPass& pass, const reference::Image& crop, const FusedPlan& plan,
                           Push push = {}) {
  constexpr std::size_t kGuardBytes = 64;
  std::vector<std::byte> tensor(pass.tensor_bytes(plan.resize.output) + kGuardBytes,
                                std::byte{0xA5});
  pass.begin(plan, tensor.data());
  const reference::Image source = reference::crop(crop.view(), pass.source());
  const std::size_t used_bytes = std::size_t{source.width_px} * 3;
  const std::size_t row_bytes = used_bytes + push.padding_bytes;
  std::uint32_t next = 0;
  while (const std::uint32_t wanted = pass.rows_wanted()) {
    const std::uint32_t rows =
        push.rows == 0 ? wanted : std::min(push.rows, source.height_px - next);
    std::vector<std::uint8_t> band(row_bytes * (rows - 1) + used_bytes, 0xEE);
    for (std::size_t y = 0; y < rows; ++y) {
      std::memcpy(&band[y * row_bytes], &source.rgb[(next + y) * used_bytes], used_bytes);
    }
    pass.push_rows(band.data(), row_bytes, rows);
    next += rows;
  }
  EXPECT_EQ(next, source.height_px);
  EXPECT_TRUE(std::all_of(tensor.end() - kGuardBytes, tensor.end(), [](std::byte b) {
    return b == std::byte{0xA5};
  })) << "wrote behind the tensor";
  tensor.resize(tensor.size() - kGuardBytes);
  return tensor;
}

std::string describe(const FusedPlan& plan, const TensorFormat& format) {
  const ResizeWindow& r = plan.resize;
  return std::to_string(r.crop.width_px) + "x" + std::to_string(r.crop.height_px) + " to " +
         std::to_string(r.full_width_px) + "x" + std::to_string(r.full_height_px) + ", window " +
         std::to_string(r.output.width_px) + "x" + std::to_string(r.output.height_px) + " at " +
         std::to_string(r.x_px) + "," + std::to_string(r.y_px) + (plan.flip ? ", flip, " : ", ") +
         to_string(format.dtype) + " " + to_string(format.layout);
}

/// One test for each set of instructions that this machine has.
class FusedPassTest : public testing::TestWithParam<const Kernels*> {
 protected:
  void expect_reference(const reference::Image& crop, const FusedPlan& plan,
                        const TensorFormat& format, Push push = {}) {
    FusedPass pass(format, *GetParam());
    EXPECT_TRUE(run(pass, crop, plan, push) == reference::run(crop.view(), plan, format))
        << describe(plan, format);
  }
};

TEST_P(FusedPassTest, EqualsTheReferenceInEveryFormat) {
  const reference::Image crop = noise(150, 117, 1);
  for (const TensorFormat& format : all_formats()) {
    for (const bool flip : {false, true}) {
      expect_reference(crop, {resize_to({150, 117}, {64, 56}), flip}, format);
    }
  }
}

TEST_P(FusedPassTest, EqualsTheReferenceOverRandomSizes) {
  SampleRandom random(2, 0, 0, 0);
  const auto side = [&random](std::uint64_t limit) {
    return static_cast<std::uint32_t>(1 + random.below(limit));
  };
  const std::vector<TensorFormat> formats = all_formats();
  for (std::uint64_t round = 0; round < 120; ++round) {
    const std::uint64_t limit = round % 4 == 0 ? 700 : 90;
    const ImageSize crop = {side(limit), side(limit)};
    const ImageSize output = {side(limit / 2), side(limit / 2)};
    const reference::Image picture = round % 5 == 0 ? extremes(crop.width_px, crop.height_px, round)
                                                    : noise(crop.width_px, crop.height_px, round);
    const Push push = {static_cast<std::uint32_t>(random.below(9)), random.below(20)};
    expect_reference(picture, {resize_to(crop, output), random.below(2) == 1},
                     formats[random.below(formats.size())], push);
  }
}

TEST_P(FusedPassTest, EqualsTheReferenceInWindows) {
  SampleRandom random(3, 0, 0, 0);
  const std::vector<TensorFormat> formats = all_formats();
  for (std::uint64_t round = 0; round < 60; ++round) {
    ResizeWindow resize;
    resize.crop = {static_cast<std::uint32_t>(1 + random.below(120)),
                   static_cast<std::uint32_t>(1 + random.below(120))};
    resize.full_width_px = 1 + random.below(100);
    resize.full_height_px = 1 + random.below(100);
    resize.output = {static_cast<std::uint32_t>(1 + random.below(70)),
                     static_cast<std::uint32_t>(1 + random.below(70))};
    resize.x_px = static_cast<std::int64_t>(random.below(resize.full_width_px + 20)) - 20;
    resize.y_px = static_cast<std::int64_t>(random.below(resize.full_height_px + 20)) - 20;
    const reference::Image crop = noise(resize.crop.width_px, resize.crop.height_px, round);
    expect_reference(crop, {resize, random.below(2) == 1}, formats[random.below(formats.size())]);
  }
}

TEST_P(FusedPassTest, EqualsTheReferenceForExtremeShapes) {
  const TensorFormat format = imagenet(DType::kFloat16, Layout::kChw);
  const std::vector<std::pair<ImageSize, ImageSize>> cases = {
      {{1, 1}, {1, 1}},         {{1, 1}, {224, 224}},  {{2, 3}, {224, 1}},
      {{65500, 1}, {16, 3}},    {{1, 65500}, {3, 16}}, {{65500, 1}, {1, 1}},
      {{1, 65500}, {1, 1}},     {{3, 4000}, {224, 7}}, {{4000, 3}, {7, 224}},
      {{224, 224}, {224, 224}}, {{5, 5}, {33, 17}},    {{6, 6}, {1, 1}},
      {{1777, 40}, {31, 31}},   {{15, 15}, {15, 15}},  {{448, 448}, {224, 224}}};
  for (const auto& [crop, output] : cases) {
    const reference::Image picture = extremes(crop.width_px, crop.height_px, crop.width_px);
    expect_reference(picture, {resize_to(crop, output), false}, format);
    expect_reference(picture, {resize_to(crop, output), true}, format);
  }
}

TEST_P(FusedPassTest, WhiteStaysWhiteThroughTheMostTaps) {
  reference::Image white(65500, 2);
  std::fill(white.rgb.begin(), white.rgb.end(), std::uint8_t{255});
  expect_reference(white, {resize_to({65500, 2}, {1, 1}), false},
                   imagenet(DType::kUint8, Layout::kHwc));
}

TEST_P(FusedPassTest, OneInstanceServesPictureAfterPicture) {
  const TensorFormat format = imagenet(DType::kFloat16, Layout::kChw);
  FusedPass pass(format, *GetParam());
  for (const std::uint32_t side : {300U, 7U, 1U, 120U, 500U, 64U}) {
    const reference::Image crop = noise(side, side, side);
    const FusedPlan plan = {resize_to({side, side}, {40, 48}), side % 2 == 0};
    EXPECT_EQ(run(pass, crop, plan), reference::run(crop.view(), plan, format)) << side;
  }
}

TEST_P(FusedPassTest, APictureBegunAnewForgetsTheOldOne) {
  const TensorFormat format = imagenet(DType::kFloat32, Layout::kHwc);
  FusedPass pass(format, *GetParam());
  const reference::Image crop = noise(90, 90, 4);
  const FusedPlan plan = {resize_to({90, 90}, {32, 32}), false};
  std::vector<std::byte> dropped(pass.tensor_bytes({32, 32}));
  pass.begin(plan, dropped.data());
  pass.push_rows(crop.rgb.data(), 270, 37);
  EXPECT_EQ(run(pass, crop, plan), reference::run(crop.view(), plan, format));
}

TEST_P(FusedPassTest, ValuesThatArithmeticCannotGiveAreLookedUp) {
  for (const DType dtype : {DType::kFloat16, DType::kFloat32}) {
    for (const Layout layout : {Layout::kChw, Layout::kHwc}) {
      TensorFormat format;
      format.dtype = dtype;
      format.layout = layout;
      format.mean = {0.5F, 1e-30F, 3.0F};
      format.std = {1e-2F, 2e-3F, -7e4F};
      const reference::Image crop = noise(70, 50, 5);
      expect_reference(crop, {resize_to({70, 50}, {37, 29}), true}, format);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, FusedPassTest, testing::ValuesIn(available_kernels()),
                         [](const auto& param) { return std::string(param.param->name); });

TEST(FusedPass, NeedsOnlyTheMiddleRowsForACentreCrop) {
  FusedPass pass(imagenet(DType::kFloat16, Layout::kChw));
  std::vector<std::byte> tensor(pass.tensor_bytes({224, 224}));
  pass.begin({resize_center_crop({1024, 512}, 256, 224), false}, tensor.data());
  // Full size 512 x 256; columns 144 to 368 of it, times 2, and a tap or so on each side.
  EXPECT_EQ(pass.source(), (CropBox{287, 31, 450, 450}));
  EXPECT_EQ(pass.rows_wanted(), FusedPass::kBandRows);
}

TEST(FusedPass, HoldsAFewRowsInsteadOfThePicture) {
  FusedPass pass(imagenet(DType::kFloat16, Layout::kChw));
  const reference::Image crop = noise(320, 260, 6);
  run(pass, crop, {resize_to({320, 260}, {224, 224}), false});
  EXPECT_GT(pass.scratch_bytes(), std::size_t{2} * 224 * 3 * 4);
  EXPECT_LT(pass.scratch_bytes(), std::size_t{80} << 10);
}

}  // namespace
}  // namespace feedrace::ops
