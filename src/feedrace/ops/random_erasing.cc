// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/random_erasing.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

#include <fmt/format.h>

#include "feedrace/error.h"
#include "feedrace/ops/half.h"

namespace feedrace::ops {
namespace {

constexpr int kTries = 10;  // torchvision's number.
constexpr std::size_t kChannels = 3;
constexpr float kLargestHalf = 65504.0F;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, "random_erasing: " + message);
}

void check_range(const char* name, const std::array<double, 2>& range, const char* bounds,
                 bool within) {
  if (within && std::isfinite(range[1]) && range[0] <= range[1]) return;
  refuse(fmt::format("{} is ({}, {}); give (low, high) with low <= high, both {}", name, range[0],
                     range[1], bounds));
}

float in_tensor_units(const Erasing& erasing, float value, std::size_t channel) {
  return (value - erasing.mean[channel]) / erasing.std[channel];
}

void check_value(const Erasing& erasing, DType dtype, std::size_t channel) {
  const float std = erasing.std[channel];
  if (!std::isfinite(erasing.mean[channel]) || !std::isfinite(std) || std == 0) {
    refuse(fmt::format("mean {} and std {} of channel {}; give finite numbers, std other than 0",
                       erasing.mean[channel], std, channel));
  }
  if (!erasing.value) return;
  const float value = in_tensor_units(erasing, (*erasing.value)[channel], channel);
  if (!std::isfinite(value)) {
    refuse(fmt::format("the value of channel {} is {}; give a finite number", channel, value));
  }
  if (dtype == DType::kUint8 && (value < 0 || value > 255)) {
    refuse(fmt::format("the value of channel {} is {} with dtype uint8; give 0 to 255", channel,
                       value));
  }
  if (dtype == DType::kFloat16 && std::abs(value) > kLargestHalf) {
    refuse(
        fmt::format("the value of channel {} is {}, float16 ends at {}; use dtype float32, or a "
                    "smaller value",
                    channel, value, kLargestHalf));
  }
}

/// The height and width of a box, in pixels; perhaps larger than the picture, or nothing.
struct DrawnSize {
  double height;
  double width;
};

DrawnSize draw_size(ImageSize picture, const Erasing& erasing, SampleRandom& random) {
  const double area = static_cast<double>(picture.width_px) * picture.height_px;
  const double erased = area * random.uniform(erasing.scale[0], erasing.scale[1]);
  const double aspect =
      std::exp(random.uniform(std::log(erasing.ratio[0]), std::log(erasing.ratio[1])));
  return {std::nearbyint(std::sqrt(erased * aspect)), std::nearbyint(std::sqrt(erased / aspect))};
}

/// Where the elements of a tensor lie, in elements.
struct Strides {
  std::size_t channel;
  std::size_t row;
  std::size_t column;

  Strides(Layout layout, ImageSize size) {
    const bool planes = layout == Layout::kChw;
    channel = planes ? std::size_t{size.width_px} * size.height_px : 1;
    row = planes ? size.width_px : std::size_t{size.width_px} * kChannels;
    column = planes ? 1 : kChannels;
  }
};

/// `value_of(channel, index)` gives the element of the box's own [3, H, W] array.
template <typename Element, typename ValueOf>
void fill_box(Element* tensor, const Strides& strides, const CropBox& box,
              const ValueOf& value_of) {
  std::uint64_t index = 0;
  for (std::size_t c = 0; c < kChannels; ++c) {
    for (std::size_t y = 0; y < box.height_px; ++y) {
      Element* row =
          tensor + c * strides.channel + (box.y_px + y) * strides.row + box.x_px * strides.column;
      for (std::size_t x = 0; x < box.width_px; ++x) {
        row[x * strides.column] = value_of(c, index++);
      }
    }
  }
}

std::uint16_t half_of(float value) {
  return half_from_float(std::clamp(value, -kLargestHalf, kLargestHalf));
}

}  // namespace

void check(const Erasing& erasing, DType dtype) {
  if (!(erasing.probability >= 0 && erasing.probability <= 1)) {
    refuse(fmt::format("probability is {}; give 0 to 1", erasing.probability));
  }
  check_range("scale", erasing.scale, "from 0 to 1",
              erasing.scale[0] >= 0 && erasing.scale[1] <= 1);
  check_range("ratio", erasing.ratio, "above 0", erasing.ratio[0] > 0);
  if (dtype == DType::kInt64) refuse("pixels as int64; use uint8, float16 or float32");
  if (dtype == DType::kUint8 && !erasing.value) {
    refuse("value random with dtype uint8; use a float dtype, or give a value from 0 to 255");
  }
  for (std::size_t c = 0; c < kChannels; ++c) check_value(erasing, dtype, c);
}

std::optional<ErasingValues> draw_random_erasing(ImageSize picture, const Erasing& erasing,
                                                 SampleRandom& random) {
  if (random.uniform() >= erasing.probability) return std::nullopt;
  ErasingValues values;
  for (std::uint32_t& part : values.noise_key) part = random.next();
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const DrawnSize drawn = draw_size(picture, erasing, random);
    if (drawn.height >= picture.height_px || drawn.width >= picture.width_px) continue;
    if (drawn.height < 1 || drawn.width < 1) return std::nullopt;  // torchvision erases nothing.
    values.box.width_px = static_cast<std::uint32_t>(drawn.width);
    values.box.height_px = static_cast<std::uint32_t>(drawn.height);
    values.box.y_px = static_cast<std::uint32_t>(
        random.below(std::uint64_t{picture.height_px} - values.box.height_px + 1));
    values.box.x_px = static_cast<std::uint32_t>(
        random.below(std::uint64_t{picture.width_px} - values.box.width_px + 1));
    return values;
  }
  return std::nullopt;
}

float noise_at(std::array<std::uint32_t, 2> key, std::uint64_t index) noexcept {
  // Box and Muller's: two uniform numbers, a radius and an angle, give two normal ones.
  const std::uint64_t block = index / 4;
  const auto bits = philox(
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0, 0}, key);
  const std::size_t pair = index % 4 / 2 * 2;
  const double above_zero = (static_cast<double>(bits[pair]) + 1) * 0x1.0p-32;
  const double angle = static_cast<double>(bits[pair + 1]) * 0x1.0p-32 * 2 * std::numbers::pi;
  const double radius = std::sqrt(-2 * std::log(above_zero));
  return static_cast<float>(radius * (index % 2 == 0 ? std::cos(angle) : std::sin(angle)));
}

void erase(void* tensor, DType dtype, Layout layout, ImageSize size, const Erasing& erasing,
           const ErasingValues& values) noexcept {
  const Strides strides(layout, size);
  const auto value_of = [&](std::size_t channel, std::uint64_t index) {
    const float value =
        erasing.value ? (*erasing.value)[channel] : noise_at(values.noise_key, index);
    return in_tensor_units(erasing, value, channel);
  };
  if (dtype == DType::kFloat32) {
    fill_box(static_cast<float*>(tensor), strides, values.box, value_of);
  } else if (dtype == DType::kFloat16) {
    fill_box(static_cast<std::uint16_t*>(tensor), strides, values.box,
             [&](std::size_t c, std::uint64_t index) { return half_of(value_of(c, index)); });
  } else {
    fill_box(static_cast<std::uint8_t*>(tensor), strides, values.box,
             [&](std::size_t c, std::uint64_t index) {
               return static_cast<std::uint8_t>(std::nearbyint(value_of(c, index)));
             });
  }
}

}  // namespace feedrace::ops
