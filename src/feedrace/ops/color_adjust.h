// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feedrace/op.h"
#include "feedrace/ops/color_kernels.h"

// torchvision's adjust_brightness and its siblings as they treat Pillow's pictures, which its
// ImageFolder makes: bit for bit what Pillow's ImageEnhance and its conversion to HSV give. (For
// uint8 tensors torchvision computes otherwise; that differs by about a level.) In place, without
// memory of their own.
namespace feedrace::ops {

/// Blends black (0) with the picture (1); beyond 1 it gets brighter. `factor >= 0`, as below.
void adjust_brightness(const ImageView& pixels, double factor,
                       const ColorKernels& kernels = best_color_kernels());

/// Blends the picture's mean grey, rounded, with the picture.
void adjust_contrast(const ImageView& pixels, double factor,
                     const ColorKernels& kernels = best_color_kernels());

/// Blends each pixel's grey with the pixel.
void adjust_saturation(const ImageView& pixels, double factor,
                       const ColorKernels& kernels = best_color_kernels());

/// Turns the hue by `factor`, a share of the circle in [-0.5, 0.5]: the picture goes to Pillow's
/// 8-bit HSV and back, H moved by int(factor * 255) and wrapped at 256. That alone, with a factor
/// of 0, moves colours by up to 7 levels.
void adjust_hue(const ImageView& pixels, double factor,
                const ColorKernels& kernels = best_color_kernels());

}  // namespace feedrace::ops
