// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/reference_resample.h"

#include <algorithm>
#include <cmath>

namespace feedrace::ops::reference {
namespace {

/// Fixed-point weights of the source pixels from `begin` on.
struct Taps {
  int begin = 0;
  std::vector<int> weights;
};

double triangle(double x) { return std::max(1.0 - std::abs(x), 0.0); }

std::vector<Taps> taps_of(std::uint32_t source_size, std::uint32_t size) {
  const double scale = static_cast<double>(source_size) / size;
  const double support = std::max(scale, 1.0);
  std::vector<Taps> result(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    const double centre = (i + 0.5) * scale;
    const int begin = std::max(static_cast<int>(centre - support + 0.5), 0);
    const int end =
        std::min(static_cast<int>(centre + support + 0.5), static_cast<int>(source_size));
    std::vector<double> weights;
    double sum = 0;
    for (int x = begin; x < end; ++x) {
      weights.push_back(triangle((x - centre + 0.5) * (1.0 / support)));
      sum += weights.back();
    }
    result[i].begin = begin;
    for (const double weight : weights) {
      result[i].weights.push_back(static_cast<int>(0.5 + weight / sum * (1 << 22)));
    }
  }
  return result;
}

/// Sum of the taps over samples `step` bytes apart, rounded to 8 bits.
std::uint8_t weigh(const std::uint8_t* samples, std::size_t step, const Taps& taps) {
  int sum = 1 << 21;
  for (std::size_t k = 0; k < taps.weights.size(); ++k) sum += samples[k * step] * taps.weights[k];
  return static_cast<std::uint8_t>(std::clamp(sum >> 22, 0, 255));
}

Image resize_columns(const ConstImageView& source, std::uint32_t width_px) {
  const std::vector<Taps> taps = taps_of(source.width_px, width_px);
  Image out(width_px, source.height_px);
  std::uint8_t* to = out.rgb.data();
  for (std::size_t y = 0; y < source.height_px; ++y) {
    const std::uint8_t* row = source.rgb + y * source.row_bytes;
    for (std::size_t x = 0; x < width_px; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        *to++ = weigh(row + static_cast<std::size_t>(taps[x].begin) * 3 + c, 3, taps[x]);
      }
    }
  }
  return out;
}

Image resize_rows(const Image& source, std::uint32_t height_px) {
  const std::vector<Taps> taps = taps_of(source.height_px, height_px);
  const std::size_t row_bytes = std::size_t{source.width_px} * 3;
  Image out(source.width_px, height_px);
  std::uint8_t* to = out.rgb.data();
  for (std::size_t y = 0; y < height_px; ++y) {
    const std::uint8_t* top = &source.rgb[static_cast<std::size_t>(taps[y].begin) * row_bytes];
    for (std::size_t x = 0; x < row_bytes; ++x) *to++ = weigh(top + x, row_bytes, taps[y]);
  }
  return out;
}

}  // namespace

Image resize(const ConstImageView& source, ImageSize size) {
  return resize_rows(resize_columns(source, size.width_px), size.height_px);
}

}  // namespace feedrace::ops::reference
