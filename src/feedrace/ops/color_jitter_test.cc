// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/color_jitter.h"

#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"
#include "feedrace/ops/color_adjust.h"
#include "feedrace/ops/random_pictures.h"

namespace feedrace::ops {
namespace {

using testing::HasSubstr;

constexpr ColorRanges kAll = {{{0.6, 1.4}}, {{0.5, 1.5}}, {{0.2, 3.0}}, {{-0.1, 0.3}}};

ColorFactors draw(const ColorRanges& ranges, std::uint64_t sample) {
  SampleRandom random(7, 0, sample, 3);
  return draw_color_jitter(ranges, random);
}

std::string order_text(const ColorFactors& factors) {
  std::string text;
  for (const ColorAdjustment adjustment : factors.order) text += to_string(adjustment)[0];
  return text;
}

TEST(ColorJitter, OrdersAndFactorsAreUniform) {
  constexpr int kDraws = 24'000;
  std::map<std::string, int> orders;
  double sum = 0;
  double low = 1;
  double high = 0;
  for (std::uint64_t sample = 0; sample < kDraws; ++sample) {
    const ColorFactors factors = draw(kAll, sample);
    ++orders[order_text(factors)];
    sum += *factors.hue;
    low = std::min(low, *factors.hue);
    high = std::max(high, *factors.hue);
    ASSERT_TRUE(*factors.brightness >= 0.6 && *factors.brightness < 1.4);
    ASSERT_TRUE(*factors.contrast >= 0.5 && *factors.contrast < 1.5);
    ASSERT_TRUE(*factors.saturation >= 0.2 && *factors.saturation < 3.0);
  }
  EXPECT_EQ(orders.size(), 24U);
  // Six standard deviations of 1,000 draws, and of a mean.
  for (const auto& [order, count] : orders) EXPECT_NEAR(count, kDraws / 24, 190) << order;
  EXPECT_NEAR(sum / kDraws, 0.1, 0.005);
  EXPECT_NEAR(low, -0.1, 0.001);
  EXPECT_NEAR(high, 0.3, 0.001);
}

TEST(ColorJitter, ARangeMoreChangesNoOtherFactor) {
  ColorRanges some = kAll;
  some.brightness.reset();
  some.saturation.reset();
  const ColorFactors all = draw(kAll, 5);
  const ColorFactors fewer = draw(some, 5);
  EXPECT_FALSE(fewer.brightness);
  EXPECT_FALSE(fewer.saturation);
  EXPECT_EQ(fewer.contrast, all.contrast);
  EXPECT_EQ(fewer.hue, all.hue);
  EXPECT_EQ(fewer.order, all.order);
}

TEST(ColorJitter, AdjustsInItsOrder) {
  using enum ColorAdjustment;
  const ColorFactors factors = {{kHue, kContrast, kBrightness, kSaturation}, 1.3, 0.7, 1.6, 0.2};
  reference::Image wanted = noise(31, 9, 1);
  reference::Image other = wanted;
  reference::Image got = wanted;
  adjust_hue(wanted.view(), 0.2);
  adjust_contrast(wanted.view(), 0.7);
  adjust_brightness(wanted.view(), 1.3);
  adjust_saturation(wanted.view(), 1.6);
  color_jitter(got.view(), factors);
  EXPECT_EQ(got.rgb, wanted.rgb);
  color_jitter(other.view(), {{kBrightness, kContrast, kSaturation, kHue}, 1.3, 0.7, 1.6, 0.2});
  EXPECT_NE(other.rgb, wanted.rgb);
}

TEST(ColorJitter, WhatWasNotDrawnIsLeftAlone) {
  reference::Image image = noise(5, 5, 2);
  const reference::Image before = image;
  color_jitter(image.view(), draw({}, 1));
  EXPECT_EQ(image.rgb, before.rgb);
}

using Range = std::optional<std::array<double, 2>>;

std::string refusal(Range ColorRanges::* member, std::array<double, 2> range) {
  ColorRanges ranges = kAll;
  ranges.*member = range;
  try {
    check(ranges);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    return error.what();
  }
  return "";
}

TEST(ColorJitter, RangesAreChecked) {
  EXPECT_EQ(refusal(&ColorRanges::hue, {-0.5, 0.5}), "");
  EXPECT_EQ(refusal(&ColorRanges::contrast, {0, 0}), "");
  EXPECT_NO_THROW(check(ColorRanges{}));
  EXPECT_EQ(refusal(&ColorRanges::contrast, {1.2, 0.8}),
            "color_jitter: contrast is (1.2, 0.8); give (low, high) with low <= high, both from 0 "
            "up");
  EXPECT_EQ(refusal(&ColorRanges::hue, {-0.6, 0.1}),
            "color_jitter: hue is (-0.6, 0.1); give (low, high) with low <= high, both from -0.5 "
            "to 0.5");
  EXPECT_THAT(refusal(&ColorRanges::brightness, {-0.1, 1}), HasSubstr("brightness"));
  EXPECT_THAT(refusal(&ColorRanges::saturation, {0, INFINITY}), HasSubstr("saturation"));
  EXPECT_THAT(refusal(&ColorRanges::saturation, {NAN, 1}), HasSubstr("saturation"));
}

}  // namespace
}  // namespace feedrace::ops
