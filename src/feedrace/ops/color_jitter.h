// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "feedrace/op.h"
#include "feedrace/random.h"

namespace feedrace::ops {

/// torchvision's ColorJitter: ranges that factors are drawn from; what has none is left alone. A
/// hue's range of 0 to 0 is not none: the way through HSV moves colours (see `adjust_hue`).
struct ColorRanges {
  std::optional<std::array<double, 2>> brightness;  ///< Each low to high, 0 <= low <= high.
  std::optional<std::array<double, 2>> contrast;
  std::optional<std::array<double, 2>> saturation;
  std::optional<std::array<double, 2>> hue;  ///< Shares of the circle, within [-0.5, 0.5].
};

/// Throws Error kInvalidArgument, naming the range that is out of order, out of bounds or not
/// finite.
void check(const ColorRanges& ranges);

enum class ColorAdjustment : std::uint8_t { kBrightness, kContrast, kSaturation, kHue };
const char* to_string(ColorAdjustment adjustment) noexcept;  ///< "brightness".

/// What was drawn for one picture.
struct ColorFactors {
  std::array<ColorAdjustment, 4> order{};  ///< In which they are done; each once.
  std::optional<double> brightness;        ///< Nothing where there was no range.
  std::optional<double> contrast;
  std::optional<double> saturation;
  std::optional<double> hue;
};

/// Draws an order, all 24 alike, and the factors, uniformly. Draws the same count of numbers
/// whatever ranges there are, so that a range more does not change the other factors.
ColorFactors draw_color_jitter(const ColorRanges& ranges, SampleRandom& random);

/// Does what was drawn, in place: bit for bit torchvision's ColorJitter of a Pillow picture.
void color_jitter(const ImageView& pixels, const ColorFactors& factors);

}  // namespace feedrace::ops
