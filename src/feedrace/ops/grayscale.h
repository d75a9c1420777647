// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "feedrace/op.h"
#include "feedrace/ops/color_kernels.h"

namespace feedrace::ops {

/// The grey of a pixel as Pillow's convert("L") has it: 0.299 R + 0.587 G + 0.114 B in 16 bits of
/// fraction, rounded. torchvision's transforms give this for Pillow's pictures, which its
/// ImageFolder makes; for uint8 tensors they cut 0.2989 R + 0.587 G + 0.114 B off instead, which is
/// up to a level less.
constexpr std::uint8_t gray_of(const std::uint8_t* rgb) noexcept {
  const std::uint32_t sum =
      rgb[0] * kRedWeight + rgb[1] * kGreenWeight + rgb[2] * kBlueWeight + kHalfOfWeights;
  return static_cast<std::uint8_t>(sum >> 16);
}

/// Makes all three channels of each pixel its grey, in place: torchvision's
/// Grayscale(num_output_channels=3) of Pillow's pictures.
void grayscale(const ImageView& pixels, const ColorKernels& kernels = best_color_kernels());

}  // namespace feedrace::ops
