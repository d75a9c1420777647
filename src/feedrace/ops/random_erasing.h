// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "feedrace/op.h"
#include "feedrace/ops/random_resized_crop.h"
#include "feedrace/random.h"
#include "feedrace/tensor.h"

namespace feedrace::ops {

/// torchvision's RandomErasing: a rectangle of the finished tensor is overwritten.
struct Erasing {
  double probability = 0.5;
  std::array<double, 2> scale = {0.02, 0.33};  ///< Share of the picture's area.
  std::array<double, 2> ratio = {0.3, 3.3};    ///< HEIGHT by width, as torchvision has it here.
  /// RGB; nothing: noise, normal with mean 0 and deviation 1, drawn for each element.
  std::optional<std::array<float, 3>> value = std::array<float, 3>{};
  /// Of the erasing's units in those of the tensor, which holds (value - mean) / std. As they stand
  /// `value` is what the tensor holds. Normalize's, for an erasing that comes before it.
  std::array<float, 3> mean = {0, 0, 0};
  std::array<float, 3> std = {1, 1, 1};
};

/// Throws Error kInvalidArgument: a probability or scale outside [0, 1], a range out of order, a
/// ratio not above 0, a std of 0, what is not finite; for kUint8 noise, and a value outside 0 to
/// 255; for kFloat16 a value that it cannot hold; kInt64.
void check(const Erasing& erasing, DType dtype);

/// What was drawn for one picture.
struct ErasingValues {
  CropBox box;                               ///< Never empty.
  std::array<std::uint32_t, 2> noise_key{};  ///< Of the generator of this box's noise.
};

/// Draws whether, and the box: the area is a uniform share `scale` of the picture's, the logarithm
/// of height by width is uniform in that of `ratio`, the place is uniform. Nothing when ten tries
/// gave no box that is lower and narrower than the picture.
std::optional<ErasingValues> draw_random_erasing(ImageSize picture, const Erasing& erasing,
                                                 SampleRandom& random);

/// Overwrites `values.box` of a picture's tensor, [3, H, W] or [H, W, 3] of `size`. Noise is a
/// function of the key, channel, row and column in the box alone: the same in any layout.
/// For kUint8 the value is rounded.
void erase(void* tensor, DType dtype, Layout layout, ImageSize size, const Erasing& erasing,
           const ErasingValues& values) noexcept;

/// Element `index` of the noise of `key`: normal, mean 0, deviation 1.
float noise_at(std::array<std::uint32_t, 2> key, std::uint64_t index) noexcept;

}  // namespace feedrace::ops
