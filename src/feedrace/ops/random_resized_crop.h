// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "feedrace/op.h"
#include "feedrace/random.h"

namespace feedrace::ops {

/// A rectangle of a picture, in pixels. `x_px`, `y_px` count from the top left corner.
struct CropBox {
  std::uint32_t x_px = 0;
  std::uint32_t y_px = 0;
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;

  friend bool operator==(const CropBox&, const CropBox&) = default;
};

/// Draws the crop of torchvision's RandomResizedCrop: the area is a uniform share `scale` of the
/// picture's, the logarithm of width by height is uniform in that of `ratio`, the place is uniform.
/// After ten tries that do not fit, the middle of the picture with its ratio clamped to `ratio`.
/// `picture` is not empty; `0 < scale[0] <= scale[1]`, `0 < ratio[0] <= ratio[1]`. The crop lies
/// inside the picture and is never empty.
CropBox draw_random_resized_crop(ImageSize picture, const std::array<double, 2>& scale,
                                 const std::array<double, 2>& ratio, SampleRandom& random);

/// True with probability `probability` of [0, 1]. Always draws one number, so that what is drawn
/// after it does not depend on the probability.
bool draw_flip(double probability, SampleRandom& random);

}  // namespace feedrace::ops
