// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/grayscale.h"

#include "feedrace/ops/color_adjust.h"

namespace feedrace::ops {

void grayscale(const ImageView& pixels, const ColorKernels& kernels) {
  adjust_saturation(pixels, 0, kernels);
}

}  // namespace feedrace::ops
