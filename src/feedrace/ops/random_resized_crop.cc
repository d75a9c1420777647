// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/random_resized_crop.h"

#include <algorithm>
#include <cmath>

namespace feedrace::ops {
namespace {

constexpr int kTries = 10;  // torchvision's number.

/// Half to even, as Python's round().
double round_to_even(double value) { return std::nearbyint(value); }

/// As torchvision's fallback. At least one pixel: torchvision fails where `ratio` is so far from
/// the picture's that rounding leaves none.
CropBox clamped_middle(ImageSize picture, const std::array<double, 2>& ratio) {
  const double width = picture.width_px;
  const double height = picture.height_px;
  const double own_ratio = width / height;
  double crop_width = width;
  double crop_height = height;
  if (own_ratio < ratio[0]) {
    crop_height = std::clamp(round_to_even(width / ratio[0]), 1.0, height);
  } else if (own_ratio > ratio[1]) {
    crop_width = std::clamp(round_to_even(height * ratio[1]), 1.0, width);
  }
  CropBox crop;
  crop.width_px = static_cast<std::uint32_t>(crop_width);
  crop.height_px = static_cast<std::uint32_t>(crop_height);
  crop.x_px = (picture.width_px - crop.width_px) / 2;
  crop.y_px = (picture.height_px - crop.height_px) / 2;
  return crop;
}

}  // namespace

CropBox draw_random_resized_crop(ImageSize picture, const std::array<double, 2>& scale,
                                 const std::array<double, 2>& ratio, SampleRandom& random) {
  const double area = static_cast<double>(picture.width_px) * picture.height_px;
  const double log_low = std::log(ratio[0]);
  const double log_high = std::log(ratio[1]);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const double target_area = area * random.uniform(scale[0], scale[1]);
    const double aspect = std::exp(random.uniform(log_low, log_high));
    const double width = round_to_even(std::sqrt(target_area * aspect));
    const double height = round_to_even(std::sqrt(target_area / aspect));
    if (width < 1 || width > picture.width_px || height < 1 || height > picture.height_px) continue;
    CropBox crop;
    crop.width_px = static_cast<std::uint32_t>(width);
    crop.height_px = static_cast<std::uint32_t>(height);
    crop.y_px = static_cast<std::uint32_t>(
        random.below(std::uint64_t{picture.height_px} - crop.height_px + 1));
    crop.x_px = static_cast<std::uint32_t>(
        random.below(std::uint64_t{picture.width_px} - crop.width_px + 1));
    return crop;
  }
  return clamped_middle(picture, ratio);
}

bool draw_flip(double probability, SampleRandom& random) { return random.uniform() < probability; }

}  // namespace feedrace::ops
