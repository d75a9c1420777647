// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/color_jitter.h"

#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "feedrace/error.h"
#include "feedrace/ops/color_adjust.h"

namespace feedrace::ops {
namespace {

using Range = std::optional<std::array<double, 2>>;

void check_range(const char* name, const Range& range, double least, double most) {
  if (!range) return;
  const auto [low, high] = *range;
  if (std::isfinite(low) && std::isfinite(high) && least <= low && low <= high && high <= most) {
    return;
  }
  const std::string bounds =
      std::isfinite(most) ? fmt::format("from {} to {}", least, most) : "from 0 up";
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("color_jitter: {} is ({}, {}); give (low, high) with low <= high, both {}", name,
                  low, high, bounds));
}

std::optional<double> draw(const Range& range, SampleRandom& random) {
  const double share = random.uniform();
  if (!range) return std::nullopt;
  const auto [low, high] = *range;
  return low + (high - low) * share;
}

}  // namespace

void check(const ColorRanges& ranges) {
  constexpr double kUnbounded = std::numeric_limits<double>::infinity();
  check_range("brightness", ranges.brightness, 0, kUnbounded);
  check_range("contrast", ranges.contrast, 0, kUnbounded);
  check_range("saturation", ranges.saturation, 0, kUnbounded);
  check_range("hue", ranges.hue, -0.5, 0.5);
}

const char* to_string(ColorAdjustment adjustment) noexcept {
  switch (adjustment) {
    case ColorAdjustment::kBrightness:
      return "brightness";
    case ColorAdjustment::kContrast:
      return "contrast";
    case ColorAdjustment::kSaturation:
      return "saturation";
    case ColorAdjustment::kHue:
      break;
  }
  return "hue";
}

ColorFactors draw_color_jitter(const ColorRanges& ranges, SampleRandom& random) {
  ColorFactors factors;
  factors.order = {ColorAdjustment::kBrightness, ColorAdjustment::kContrast,
                   ColorAdjustment::kSaturation, ColorAdjustment::kHue};
  for (std::size_t left = factors.order.size(); left > 1; --left) {
    std::swap(factors.order[left - 1], factors.order[random.below(left)]);
  }
  factors.brightness = draw(ranges.brightness, random);
  factors.contrast = draw(ranges.contrast, random);
  factors.saturation = draw(ranges.saturation, random);
  factors.hue = draw(ranges.hue, random);
  return factors;
}

void color_jitter(const ImageView& pixels, const ColorFactors& factors) {
  for (const ColorAdjustment adjustment : factors.order) {
    switch (adjustment) {
      case ColorAdjustment::kBrightness:
        if (factors.brightness) adjust_brightness(pixels, *factors.brightness);
        break;
      case ColorAdjustment::kContrast:
        if (factors.contrast) adjust_contrast(pixels, *factors.contrast);
        break;
      case ColorAdjustment::kSaturation:
        if (factors.saturation) adjust_saturation(pixels, *factors.saturation);
        break;
      case ColorAdjustment::kHue:
        if (factors.hue) adjust_hue(pixels, *factors.hue);
        break;
    }
  }
}

}  // namespace feedrace::ops
