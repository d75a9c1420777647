// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "feedrace/op.h"

namespace feedrace::ops::reference {

/// 8-bit RGB pixels, rows without padding.
struct Image {
  std::vector<std::uint8_t> rgb;
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;

  Image() = default;
  Image(std::uint32_t width, std::uint32_t height)
      : rgb(std::size_t{width} * height * 3), width_px(width), height_px(height) {}
  ConstImageView view() const noexcept {
    return {rgb.data(), std::size_t{width_px} * 3, width_px, height_px};
  }
  ImageView view() noexcept { return {rgb.data(), std::size_t{width_px} * 3, width_px, height_px}; }
  friend bool operator==(const Image&, const Image&) = default;
};

/// The yardstick: Pillow's `Image.resize(size, BILINEAR)` written as plainly as it can be, one pass
/// over whole pictures after the other. Equal to Pillow 12's result in every byte.
Image resize(const ConstImageView& source, ImageSize size);

}  // namespace feedrace::ops::reference
