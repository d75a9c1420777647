// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/resample.h"

#include <algorithm>
#include <cmath>

#include "feedrace/ops/crop_or_pad.h"
#include "feedrace/ops/resize_target.h"

namespace feedrace::ops {
namespace {

/// The source pixels under the filter of one output: [begin, begin + count).
struct Taps {
  std::uint32_t begin = 0;
  std::uint32_t count = 0;
};

/// One axis of a resize, in Pillow's terms: positions are of pixel edges, an output's centre lies
/// at (i + 0.5) * scale.
struct Axis {
  double source_size;
  double scale;
  double support;          ///< Half the filter's width, in source pixels.
  double inverse_stretch;  ///< The filter is a triangle over [-1, 1], stretched when shrinking.

  Axis(std::uint32_t source, std::uint64_t full)
      : source_size(source), scale(source_size / static_cast<double>(full)) {
    support = std::max(scale, 1.0);
    inverse_stretch = 1.0 / support;
  }
  double centre(std::int64_t output) const { return (static_cast<double>(output) + 0.5) * scale; }
  Taps taps(double centre) const {
    // Conversion truncates towards 0, as in Pillow; std::trunc would be a call.
    const auto begin = static_cast<std::int64_t>(centre - support + 0.5);
    const auto end = static_cast<std::int64_t>(std::min(centre + support + 0.5, source_size));
    const std::int64_t first = std::max(begin, std::int64_t{0});
    return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(end - first)};
  }
};

/// Sums and divides in Pillow's order, so that each weight has the same bits.
void fill_weights(const Axis& axis, double centre, Taps taps, double* scratch,
                  std::int32_t* weights) {
  double sum = 0;
  for (std::uint32_t i = 0; i < taps.count; ++i) {
    const double distance =
        std::abs((static_cast<double>(taps.begin + i) - centre + 0.5) * axis.inverse_stretch);
    scratch[i] = distance < 1.0 ? 1.0 - distance : 0.0;
    sum += scratch[i];
  }
  if (sum == 0.0) sum = 1.0;
  for (std::uint32_t i = 0; i < taps.count; ++i) {
    weights[i] = static_cast<std::int32_t>(0.5 + scratch[i] / sum * (1 << kWeightBits));
  }
}

/// Which source pixels each output reads; sets all but the weights.
void place_taps(const Axis& axis, std::uint64_t full_size, std::int64_t window_start,
                AxisWeights& out) {
  out.max_taps = 1;
  std::uint32_t end = 0;
  bool any = false;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t output = window_start + static_cast<std::int64_t>(i);
    if (output < 0 || static_cast<std::uint64_t>(output) >= full_size) continue;
    const Taps taps = axis.taps(axis.centre(output));
    out.start[i] = taps.begin;
    out.taps[i] = taps.count;
    out.max_taps = std::max(out.max_taps, taps.count);
    if (!any) out.first = taps.begin;  // Starts never decrease.
    any = true;
    end = std::max(end, taps.begin + taps.count);
  }
  out.count = std::max(end, out.first + 1) - out.first;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out.taps[i] == 0) out.start[i] = out.first;
  }
}

}  // namespace

std::size_t AxisWeights::memory_bytes() const noexcept {
  return start.capacity() * sizeof(start[0]) + taps.capacity() * sizeof(taps[0]) +
         weights.capacity() * sizeof(weights[0]) + scratch.capacity() * sizeof(scratch[0]);
}

ResizeWindow resize_to(ImageSize crop, ImageSize output) noexcept {
  return {crop, output.width_px, output.height_px, 0, 0, output};
}

ResizeWindow resize_center_crop(ImageSize picture, std::uint32_t resize_px,
                                std::uint32_t crop_px) noexcept {
  const FullSize full = resize_shorter(picture, resize_px);
  return resize_to_window(picture, full, center_window(full, {crop_px, crop_px}));
}

void make_axis_weights(std::uint32_t source_size, std::uint64_t full_size,
                       std::int64_t window_start, std::uint32_t window_size, AxisWeights& axis) {
  const Axis pillow(source_size, full_size);
  axis.first = 0;
  axis.start.assign(window_size, 0);
  axis.taps.assign(window_size, 0);
  place_taps(pillow, full_size, window_start, axis);
  axis.stride = (std::size_t{axis.max_taps} + 3) / 4 * 4;
  axis.weights.assign(axis.stride * window_size, 0);
  axis.scratch.resize(axis.stride);
  for (std::size_t i = 0; i < axis.size(); ++i) {
    if (axis.taps[i] == 0) continue;
    const double centre = pillow.centre(window_start + static_cast<std::int64_t>(i));
    fill_weights(pillow, centre, {axis.start[i], axis.taps[i]}, axis.scratch.data(),
                 &axis.weights[i * axis.stride]);
  }
}

}  // namespace feedrace::ops
