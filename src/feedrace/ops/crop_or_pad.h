// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "feedrace/op.h"
#include "feedrace/ops/resample.h"
#include "feedrace/ops/resize_target.h"

namespace feedrace::ops {

/// A rectangle that may reach beyond its picture; what lies outside is black.
struct CropWindow {
  std::int64_t x_px = 0;  ///< Of its left edge in the picture; may be negative.
  std::int64_t y_px = 0;
  ImageSize size;

  friend bool operator==(const CropWindow& a, const CropWindow& b) {
    return a.x_px == b.x_px && a.y_px == b.y_px && a.size.width_px == b.size.width_px &&
           a.size.height_px == b.size.height_px;
  }
};

/// torchvision's CenterCrop: int(round(room / 2.0)) from the left and top, half to even; where the
/// picture is smaller, it lies behind -room // 2 black pixels.
CropWindow center_window(FullSize picture, ImageSize size) noexcept;

/// The window at the shares `x` and `y`, 0 to 1, of the room that `size` leaves in the picture: 0
/// is left or top, 1 right or bottom; to the nearest pixel, half away from 0. Where the picture is
/// smaller, the same shares of what lacks lie before it.
CropWindow placed_window(FullSize picture, ImageSize size, double x, double y) noexcept;

/// The window of the picture resized to `full`, as the fused pass takes it.
ResizeWindow resize_to_window(ImageSize picture, FullSize full, const CropWindow& window) noexcept;

/// Copies the window to `output`, which has its size and does not overlap `input`.
void crop_or_pad(const ConstImageView& input, const ImageView& output,
                 const CropWindow& window) noexcept;

}  // namespace feedrace::ops
