// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "feedrace/op.h"
#include "feedrace/ops/convert.h"
#include "feedrace/ops/reference.h"
#include "feedrace/random.h"

// For tests and benchmarks.
namespace feedrace::ops {

/// Noise: neighbours differ, so a tap too many or too few shows.
inline reference::Image noise(std::uint32_t width_px, std::uint32_t height_px, std::uint64_t seed) {
  SampleRandom random(seed, 0, 0, 0);
  reference::Image image(width_px, height_px);
  for (std::uint8_t& byte : image.rgb) byte = static_cast<std::uint8_t>(random.next() >> 24);
  return image;
}

/// Noise of 0 and 255 alone: sums reach the ends of their range.
inline reference::Image extremes(std::uint32_t width_px, std::uint32_t height_px,
                                 std::uint64_t seed) {
  reference::Image image = noise(width_px, height_px, seed);
  for (std::uint8_t& byte : image.rgb) byte = byte < 128 ? 0 : 255;
  return image;
}

/// What the ImageNet recipes write; bytes go without mean and std.
inline TensorFormat imagenet(DType dtype, Layout layout) {
  TensorFormat format;
  format.dtype = dtype;
  format.layout = layout;
  if (dtype == DType::kUint8) return format;
  format.mean.assign(kImagenetMean.begin(), kImagenetMean.end());
  format.std.assign(kImagenetStd.begin(), kImagenetStd.end());
  return format;
}

}  // namespace feedrace::ops
