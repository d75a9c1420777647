// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "feedrace/op.h"

namespace feedrace::ops {

/// How a crop becomes the output: the crop is resized to the full size, and a window of that is
/// kept. The full size is only thought of: what the window does not need is not computed.
struct ResizeWindow {
  ImageSize crop;                   ///< Of the source pixels; not empty.
  std::uint64_t full_width_px = 0;  ///< Size that the whole crop is resized to; at least 1, < 2^52.
  std::uint64_t full_height_px = 0;
  std::int64_t x_px = 0;  ///< Left edge of the window in the full picture. May be negative:
  std::int64_t y_px = 0;  ///< what lies outside the full picture is black.
  ImageSize output;       ///< Size of the window; not empty.
};

/// The whole crop, resized to `output`: torchvision's resized_crop.
ResizeWindow resize_to(ImageSize crop, ImageSize output) noexcept;

/// torchvision's Resize(resize_px) of the shorter side, then CenterCrop(crop_px) of that. A picture
/// that is smaller than `crop_px` after resizing gets black borders, as CenterCrop gives them.
ResizeWindow resize_center_crop(ImageSize picture, std::uint32_t resize_px,
                                std::uint32_t crop_px) noexcept;

/// Weights are integers of this many fractional bits, as Pillow has them: 32 bits, less 8 of the
/// pixel, less 2 of head room.
inline constexpr int kWeightBits = 32 - 8 - 2;

/// What one axis of a resize reads and by how much: output `i` is the sum of `taps[i]` source
/// pixels from `start[i]` on, times `weights[i * stride ...]`, rounded and shifted by
/// `kWeightBits`. Made of Pillow's triangle filter, which widens when it shrinks ("antialias"), to
/// the last bit.
struct AxisWeights {
  std::uint32_t first = 0;     ///< First source pixel that any output needs.
  std::uint32_t count = 0;     ///< Source pixels from `first` to the last one needed; >= 1.
  std::size_t stride = 0;      ///< Weights an output has room for: a multiple of 4.
  std::uint32_t max_taps = 0;  ///< Of any output.
  std::vector<std::uint32_t>
      start;  ///< Of the source, not of `first`. `first` where there are none.
  std::vector<std::uint32_t> taps;    ///< 0 for an output outside the full picture.
  std::vector<std::int32_t> weights;  ///< Never negative; 0 behind the last tap.
  std::vector<double> scratch;        ///< Of `make_axis_weights`.

  std::size_t size() const noexcept { return start.size(); }
  std::size_t memory_bytes() const noexcept;
};

/// Fills `axis` for the outputs [window_start, window_start + window_size) of a resize from
/// `source_size` to `full_size` pixels. Keeps the vectors' memory; throws only std::bad_alloc.
void make_axis_weights(std::uint32_t source_size, std::uint64_t full_size,
                       std::int64_t window_start, std::uint32_t window_size, AxisWeights& axis);

}  // namespace feedrace::ops
