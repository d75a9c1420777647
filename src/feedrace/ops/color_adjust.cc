// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/color_adjust.h"

#include <algorithm>

namespace feedrace::ops {
namespace {

template <typename Change>
void for_each_row(const ImageView& pixels, const Change& change) {
  for (std::size_t y = 0; y < pixels.height_px; ++y) change(pixels.rgb + y * pixels.row_bytes);
}

/// As Pillow rounds it. Of a picture without pixels, 0.
std::uint8_t mean_gray(const ImageView& pixels, const ColorKernels& kernels) {
  constexpr std::size_t kPiecePx = std::size_t{1} << 20;  // A sum of its greys is below 2^32.
  std::uint64_t sum = 0;
  for_each_row(pixels, [&](const std::uint8_t* row) {
    for (std::size_t x = 0; x < pixels.width_px; x += kPiecePx) {
      sum += kernels.sum_gray_row(row + x * 3, std::min(kPiecePx, pixels.width_px - x));
    }
  });
  const double count = std::max(1.0, static_cast<double>(pixels.width_px) * pixels.height_px);
  return static_cast<std::uint8_t>(static_cast<double>(sum) / count + 0.5);
}

}  // namespace

void adjust_brightness(const ImageView& pixels, double factor, const ColorKernels& kernels) {
  for_each_row(pixels, [&](std::uint8_t* row) {
    kernels.blend_row(row, pixels.width_px, 0, static_cast<float>(factor));
  });
}

void adjust_contrast(const ImageView& pixels, double factor, const ColorKernels& kernels) {
  const std::uint8_t mean = mean_gray(pixels, kernels);
  for_each_row(pixels, [&](std::uint8_t* row) {
    kernels.blend_row(row, pixels.width_px, mean, static_cast<float>(factor));
  });
}

void adjust_saturation(const ImageView& pixels, double factor, const ColorKernels& kernels) {
  for_each_row(pixels, [&](std::uint8_t* row) {
    kernels.blend_gray_row(row, pixels.width_px, static_cast<float>(factor));
  });
}

void adjust_hue(const ImageView& pixels, double factor, const ColorKernels& kernels) {
  const auto turn = static_cast<std::int32_t>(factor * 255);
  for_each_row(pixels,
               [&](std::uint8_t* row) { kernels.turn_hue_row(row, pixels.width_px, turn); });
}

}  // namespace feedrace::ops
