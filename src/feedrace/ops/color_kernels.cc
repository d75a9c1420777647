// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/color_kernels.h"

#include <algorithm>
#include <cmath>

#include "feedrace/ops/grayscale.h"

namespace feedrace::ops {
namespace {

std::int32_t cut_off(float value) { return static_cast<std::int32_t>(value); }

std::uint8_t to_level(float value) { return static_cast<std::uint8_t>(cut_off(value)); }

std::uint8_t blend(float from, float level, float factor) {
  return to_level(std::clamp(from + factor * (level - from), 0.0F, 255.0F));
}

void blend_row(std::uint8_t* rgb, std::size_t width_px, std::uint8_t from, float factor) {
  for (std::size_t i = 0; i < width_px * 3; ++i) rgb[i] = blend(from, rgb[i], factor);
}

void blend_gray_row(std::uint8_t* rgb, std::size_t width_px, float factor) {
  for (std::uint8_t* end = rgb + width_px * 3; rgb != end; rgb += 3) {
    const std::uint8_t gray = gray_of(rgb);
    for (std::size_t c = 0; c < 3; ++c) rgb[c] = blend(gray, rgb[c], factor);
  }
}

std::uint32_t sum_gray_row(const std::uint8_t* rgb, std::size_t width_px) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < width_px * 3; i += 3) sum += gray_of(rgb + i);
  return sum;
}

/// floor(share * 255), exactly: the product is rounded and may reach the next integer, which the
/// difference share * 256 - level, an exact one, then shows. `share` is in [0, 1].
float levels_of(float share) {
  const auto level = static_cast<float>(cut_off(share * 255.0F));
  return share * 256.0F - level < share ? level - 1 : level;
}

/// In sixths of the circle: red, green and blue stand at 0, 2 and 4. Not grey. `part` is how far
/// the middle channel lies below the strongest, as a share of all the way to the weakest.
float sextants_of(float red, float green, float blue, float most, float part) {
  if (red == most) return green >= blue ? 1 - part : part - 1;
  if (green == most) return red >= blue ? 1 + part : 3 - part;
  return green >= red ? 3 + part : 5 - part;
}

std::uint8_t channel_of(float doubled_hue, float opposite, float saturation, float value) {
  const float distance = std::abs(doubled_hue - opposite);
  const float shorter = std::min(distance, kCircle - distance);
  const float lack = std::clamp(2 * kSextant - shorter, 0.0F, kSextant);
  return to_level(value * (kFullLack - saturation * lack) * (1 / kFullLack) + 0.5F);
}

void turn_hue(std::uint8_t* rgb, std::int32_t turn) {
  const float red = rgb[0];
  const float green = rgb[1];
  const float blue = rgb[2];
  const float most = std::max({red, green, blue});
  const float least = std::min({red, green, blue});
  const float range = most - least;
  if (range == 0) return;
  const float middle = red + green + blue - most - least;
  const float circle_share = sextants_of(red, green, blue, most, (most - middle) / range) / 6.0F;
  const float hue = levels_of(circle_share < 0 ? circle_share + 1 : circle_share);
  const float saturation = levels_of(range / most);
  const auto doubled_hue = static_cast<float>(((cut_off(hue) + turn) & 255) * 2);
  rgb[0] = channel_of(doubled_hue, kOppositeRed, saturation, most);
  rgb[1] = channel_of(doubled_hue, kOppositeGreen, saturation, most);
  rgb[2] = channel_of(doubled_hue, kOppositeBlue, saturation, most);
}

void turn_hue_row(std::uint8_t* rgb, std::size_t width_px, std::int32_t turn) {
  for (std::size_t i = 0; i < width_px * 3; i += 3) turn_hue(rgb + i, turn);
}

}  // namespace

const ColorKernels& scalar_color_kernels() noexcept {
  static constexpr ColorKernels kSet = {"scalar", blend_row, blend_gray_row, sum_gray_row,
                                        turn_hue_row};
  return kSet;
}

const std::vector<const ColorKernels*>& available_color_kernels() {
  static const std::vector<const ColorKernels*> kAvailable = [] {
    std::vector<const ColorKernels*> sets = {&scalar_color_kernels()};
    for (const ColorKernels* set : highway_color_kernels()) sets.push_back(set);
    return sets;
  }();
  return kAvailable;
}

const ColorKernels& best_color_kernels() { return *available_color_kernels().back(); }

}  // namespace feedrace::ops
