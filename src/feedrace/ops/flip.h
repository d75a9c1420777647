// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feedrace/op.h"

namespace feedrace::ops {

struct Flip {
  bool horizontal = false;  ///< Left to right.
  bool vertical = false;    ///< Top to bottom.
};

/// Copies `input` to `output`, mirrored as `flip` says. Same sizes; they do not overlap.
void flip(const ConstImageView& input, const ImageView& output, Flip flip) noexcept;

}  // namespace feedrace::ops
