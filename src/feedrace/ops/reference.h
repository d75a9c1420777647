// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "feedrace/op.h"
#include "feedrace/ops/convert.h"
#include "feedrace/ops/fused_pass.h"
#include "feedrace/ops/random_resized_crop.h"
#include "feedrace/ops/reference_resample.h"

// Each op once more, as plainly as it can be written: what the fast ones are tested against.
namespace feedrace::ops::reference {

Image crop(const ConstImageView& source, const CropBox& box);
Image flip(const ConstImageView& source);

/// The window of `resize.output` at (x_px, y_px) of the crop resized to the full size; black
/// outside.
Image resize_window(const ConstImageView& source, const ResizeWindow& resize);

/// (float(level) / 255 - mean) / std, stored as the format says.
std::vector<std::byte> to_tensor(const ConstImageView& source, const TensorFormat& format);

/// What `FusedPass` computes.
std::vector<std::byte> run(const ConstImageView& crop, const FusedPlan& plan,
                           const TensorFormat& format);

/// The value of the binary16 nearest to `value`, by arithmetic on values instead of bits.
float nearest_half(float value);

}  // namespace feedrace::ops::reference
