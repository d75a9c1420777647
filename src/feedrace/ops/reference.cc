// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "feedrace/ops/half.h"

namespace feedrace::ops::reference {
namespace {

template <typename Value>
void put(Value value, std::byte* at) {
  std::memcpy(at, &value, sizeof(value));
}

void store(std::uint8_t level, std::size_t channel, const TensorFormat& format, std::byte* at) {
  if (format.dtype == DType::kUint8) {
    put(level, at);
    return;
  }
  const float mean = format.mean.empty() ? 0.0F : format.mean[channel];
  const float std = format.std.empty() ? 1.0F : format.std[channel];
  const float value = (static_cast<float>(level) / 255.0F - mean) / std;
  if (format.dtype == DType::kFloat16) {
    put(half_from_float(value), at);
  } else {
    put(value, at);
  }
}

}  // namespace

Image crop(const ConstImageView& source, const CropBox& box) {
  Image out(box.width_px, box.height_px);
  const std::size_t row_bytes = std::size_t{box.width_px} * 3;
  for (std::size_t y = 0; y < box.height_px; ++y) {
    const std::uint8_t* from = source.rgb + (box.y_px + y) * source.row_bytes;
    std::memcpy(&out.rgb[y * row_bytes], from + std::size_t{box.x_px} * 3, row_bytes);
  }
  return out;
}

Image flip(const ConstImageView& source) {
  Image out(source.width_px, source.height_px);
  std::uint8_t* to = out.rgb.data();
  for (std::size_t y = 0; y < source.height_px; ++y) {
    for (std::size_t x = source.width_px; x-- > 0;) {
      for (std::size_t c = 0; c < 3; ++c) *to++ = source.rgb[y * source.row_bytes + x * 3 + c];
    }
  }
  return out;
}

Image resize_window(const ConstImageView& source, const ResizeWindow& resize) {
  const ImageSize full_size = {static_cast<std::uint32_t>(resize.full_width_px),
                               static_cast<std::uint32_t>(resize.full_height_px)};
  const Image full = reference::resize(source, full_size);
  Image out(resize.output.width_px, resize.output.height_px);
  for (std::size_t y = 0; y < out.height_px; ++y) {
    for (std::size_t x = 0; x < out.width_px; ++x) {
      const std::int64_t from_x = resize.x_px + static_cast<std::int64_t>(x);
      const std::int64_t from_y = resize.y_px + static_cast<std::int64_t>(y);
      if (from_x < 0 || from_x >= full.width_px || from_y < 0 || from_y >= full.height_px) continue;
      const auto pixel = static_cast<std::size_t>(from_y * full.width_px + from_x);
      std::copy_n(&full.rgb[pixel * 3], 3, &out.rgb[(y * out.width_px + x) * 3]);
    }
  }
  return out;
}

std::vector<std::byte> to_tensor(const ConstImageView& source, const TensorFormat& format) {
  const std::size_t element_bytes = size_of(format.dtype);
  const std::size_t pixels = std::size_t{source.width_px} * source.height_px;
  std::vector<std::byte> tensor(pixels * 3 * element_bytes);
  for (std::size_t y = 0; y < source.height_px; ++y) {
    for (std::size_t x = 0; x < source.width_px; ++x) {
      for (std::size_t c = 0; c < 3; ++c) {
        const std::size_t pixel = y * source.width_px + x;
        const std::size_t at = format.layout == Layout::kChw ? c * pixels + pixel : pixel * 3 + c;
        store(source.rgb[y * source.row_bytes + x * 3 + c], c, format, &tensor[at * element_bytes]);
      }
    }
  }
  return tensor;
}

std::vector<std::byte> run(const ConstImageView& crop, const FusedPlan& plan,
                           const TensorFormat& format) {
  Image image = resize_window(crop, plan.resize);
  if (plan.flip) image = flip(image.view());
  return to_tensor(image.view(), format);
}

float nearest_half(float value) {
  if (!std::isfinite(value) || value == 0.0F) return value;
  const int exponent = std::max(std::ilogb(value), -14);
  const double unit = std::ldexp(1.0, exponent - 10);  // Between neighbours, here.
  const double rounded = std::nearbyint(value / unit) * unit;
  const double limited = std::abs(rounded) > 65504.0 ? std::copysign(INFINITY, rounded) : rounded;
  return static_cast<float>(limited);
}

}  // namespace feedrace::ops::reference
