// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "feedrace/error.h"
#include "feedrace/op.h"

namespace feedrace::ops {

struct Padding {
  std::uint32_t left_px = 0;
  std::uint32_t top_px = 0;
  std::uint32_t right_px = 0;
  std::uint32_t bottom_px = 0;
  PadMode mode = PadMode::kConstant;
  std::array<std::uint8_t, 3> fill{};  ///< RGB; of `kConstant`.
};

/// The size of a padded picture. A failure, kInvalidArgument: a border of `kReflect` that is not
/// smaller than the picture's side, a side beyond 2^32 - 1 pixels. `picture` is not empty.
Result<ImageSize> padded_size(ImageSize picture, const Padding& padding);

/// Writes `input` with its border to `output`, which has the size that `padded_size` gave and does
/// not overlap `input`. Equals torchvision's pad of a Pillow picture.
void pad(const ConstImageView& input, const ImageView& output, const Padding& padding) noexcept;

}  // namespace feedrace::ops
