// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/resample.h"

#include <numeric>

#include <gtest/gtest.h>

namespace feedrace::ops {
namespace {

void expect_window(ImageSize picture, std::uint32_t resize_px, std::uint32_t crop_px,
                   ResizeWindow wanted) {
  const ResizeWindow window = resize_center_crop(picture, resize_px, crop_px);
  EXPECT_EQ(window.full_width_px, wanted.full_width_px);
  EXPECT_EQ(window.full_height_px, wanted.full_height_px);
  EXPECT_EQ(window.x_px, wanted.x_px);
  EXPECT_EQ(window.y_px, wanted.y_px);
  EXPECT_EQ(window.output.width_px, crop_px);
  EXPECT_EQ(window.output.height_px, crop_px);
  EXPECT_EQ(window.crop.width_px, picture.width_px);
  EXPECT_EQ(window.crop.height_px, picture.height_px);
}

TEST(ResizeCenterCrop, RoundsAsTorchvisionDoes) {
  expect_window({500, 375}, 256, 224, {{}, 341, 256, 58, 16, {}});  // (341 - 224) / 2 = 58.5
  expect_window({375, 500}, 256, 224, {{}, 256, 341, 16, 58, {}});
  expect_window({100, 100}, 256, 224, {{}, 256, 256, 16, 16, {}});
  expect_window({201, 200}, 200, 100, {{}, 201, 200, 50, 50, {}});  // 50.5 goes to even.
  expect_window({203, 200}, 200, 100, {{}, 203, 200, 52, 50, {}});  // 51.5 too.
}

TEST(ResizeCenterCrop, PadsWhatIsTooSmall) {
  expect_window({50, 50}, 100, 103, {{}, 100, 100, -1, -1, {}});
  expect_window({80, 40}, 100, 150, {{}, 200, 100, 25, -25, {}});
}

TEST(ResizeCenterCrop, HoldsSidesBeyond32Bits) {
  expect_window({178'000'000, 1}, 256, 224, {{}, 45'568'000'000, 256, 22'783'999'888, 16, {}});
}

TEST(AxisWeights, OfEachOutputAddUpToOne) {
  AxisWeights axis;
  for (const std::uint32_t source : {1U, 2U, 7U, 100U, 999U}) {
    for (const std::uint32_t full : {1U, 3U, 50U, 300U}) {
      make_axis_weights(source, full, 0, full, axis);
      ASSERT_EQ(axis.size(), full);
      for (std::size_t i = 0; i < full; ++i) {
        const auto* weights = &axis.weights[i * axis.stride];
        const int sum = std::accumulate(weights, weights + axis.stride, 0);
        // Each weight is rounded by half a unit at most.
        EXPECT_NEAR(sum, 1 << kWeightBits, axis.taps[i] / 2 + 1);
        EXPECT_GE(axis.start[i], axis.first);
        EXPECT_LE(axis.start[i] + axis.taps[i], axis.first + axis.count);
        EXPECT_LE(axis.first + axis.count, source);
      }
    }
  }
}

TEST(AxisWeights, OfTheSameSizeCopy) {
  AxisWeights axis;
  make_axis_weights(9, 9, 0, 9, axis);
  for (std::size_t i = 0; i < 9; ++i) {
    EXPECT_EQ(axis.start[i], i);
    EXPECT_EQ(axis.weights[i * axis.stride], 1 << kWeightBits);
  }
}

TEST(AxisWeights, OfAWindowEqualThoseOfTheWhole) {
  AxisWeights whole;
  AxisWeights window;
  make_axis_weights(500, 341, 0, 341, whole);
  make_axis_weights(500, 341, 58, 224, window);
  for (std::size_t i = 0; i < 224; ++i) {
    EXPECT_EQ(window.start[i], whole.start[58 + i]);
    ASSERT_EQ(window.taps[i], whole.taps[58 + i]);
    for (std::size_t k = 0; k < window.taps[i]; ++k) {
      EXPECT_EQ(window.weights[i * window.stride + k], whole.weights[(58 + i) * whole.stride + k]);
    }
  }
  EXPECT_EQ(window.first, whole.start[58]);
  EXPECT_LT(window.count, 332U);
}

TEST(AxisWeights, OutsideThePictureAreNone) {
  AxisWeights axis;
  make_axis_weights(10, 10, -2, 14, axis);
  for (const std::size_t i : {0, 1, 12, 13}) EXPECT_EQ(axis.taps[i], 0U) << i;
  for (std::size_t i = 2; i < 12; ++i) EXPECT_GT(axis.taps[i], 0U) << i;
  EXPECT_EQ(axis.first, 0U);
  EXPECT_EQ(axis.count, 10U);
}

}  // namespace
}  // namespace feedrace::ops
