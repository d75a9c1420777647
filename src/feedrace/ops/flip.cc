// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/flip.h"

#include <cstring>

namespace feedrace::ops {
namespace {

void mirror_row(const std::uint8_t* from, std::uint8_t* to, std::size_t width_px) {
  from += width_px * 3;
  for (std::size_t x = 0; x < width_px; ++x, to += 3) {
    from -= 3;
    to[0] = from[0];
    to[1] = from[1];
    to[2] = from[2];
  }
}

}  // namespace

void flip(const ConstImageView& input, const ImageView& output, Flip flip) noexcept {
  const std::size_t width_px = input.width_px;
  for (std::size_t y = 0; y < input.height_px; ++y) {
    const std::size_t from_y = flip.vertical ? input.height_px - 1 - y : y;
    const std::uint8_t* from = input.rgb + from_y * input.row_bytes;
    std::uint8_t* to = output.rgb + y * output.row_bytes;
    if (flip.horizontal) {
      mirror_row(from, to, width_px);
    } else {
      std::memcpy(to, from, width_px * 3);
    }
  }
}

}  // namespace feedrace::ops
