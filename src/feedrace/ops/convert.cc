// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/convert.h"

#include <cmath>
#include <string>

#include <fmt/format.h>

#include "feedrace/error.h"
#include "feedrace/ops/half.h"
#include "feedrace/ops/level_math.h"

namespace feedrace::ops {
namespace {

constexpr std::size_t kChannels = 3;
constexpr float kLargestHalf = 65504.0F;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void check_length(const char* name, const std::vector<float>& values) {
  if (values.empty() || values.size() == kChannels) return;
  refuse(fmt::format("normalize: {} has length {}; give one value for each of the 3 channels", name,
                     values.size()));
}

float level_value(const TensorFormat& format, std::size_t channel, std::size_t level) {
  const float mean = format.mean.empty() ? 0.0F : format.mean[channel];
  const float std = format.std.empty() ? 1.0F : format.std[channel];
  const float share = static_cast<float>(level) / 255.0F;
  const float centred = share - mean;
  return centred / std;
}

void check_half_range(const TensorFormat& format) {
  for (std::size_t c = 0; c < kChannels; ++c) {
    for (const std::size_t level : {std::size_t{0}, std::size_t{255}}) {
      const float value = level_value(format, c, level);
      if (std::abs(value) <= kLargestHalf) continue;
      refuse(fmt::format(
          "normalize: channel {} reaches {} with this mean and std, float16 ends at {}; use "
          "dtype float32, or a larger std",
          c, value, kLargestHalf));
    }
  }
}

}  // namespace

void check(const TensorFormat& format) {
  check_length("mean", format.mean);
  check_length("std", format.std);
  for (std::size_t c = 0; c < format.mean.size(); ++c) {
    if (!std::isfinite(format.mean[c])) {
      refuse(fmt::format("normalize: mean of channel {} is {}; give a finite number", c,
                         format.mean[c]));
    }
  }
  for (std::size_t c = 0; c < format.std.size(); ++c) {
    if (!std::isfinite(format.std[c]) || format.std[c] == 0.0F) {
      refuse(fmt::format("normalize: std of channel {} is {}; give a finite number other than 0", c,
                         format.std[c]));
    }
  }
  if (format.dtype == DType::kInt64) {
    refuse("to_tensor: pixels as int64; use uint8, float16 or float32");
  }
  if (format.dtype == DType::kUint8 && !(format.mean.empty() && format.std.empty())) {
    refuse("normalize: mean and std with dtype uint8; leave them out, or use a float dtype");
  }
  if (format.dtype == DType::kFloat16) check_half_range(format);
}

LevelTable make_level_table(const TensorFormat& format) {
  LevelTable table;
  for (std::size_t c = 0; c < kChannels; ++c) {
    for (std::size_t level = 0; level < 256; ++level) {
      table.values[c][level] = level_value(format, c, level);
      table.halves[c][level] = half_from_float(table.values[c][level]);
    }
  }
  return table;
}

Converter::Converter(const TensorFormat& format, const Kernels& kernels)
    : kernels_(&kernels), dtype_(format.dtype), layout_(format.layout) {
  check(format);
  table_ = make_level_table(format);
  math_ = find_level_math(format, table_, kernels);
}

std::size_t Converter::tensor_bytes(ImageSize size) const noexcept {
  return size_of(dtype_) * kChannels * size.width_px * size.height_px;
}

void Converter::convert(const ConstImageView& image, void* tensor) const noexcept {
  const ImageSize size = {image.width_px, image.height_px};
  for (std::uint32_t y = 0; y < image.height_px; ++y) {
    const std::uint8_t* rgb = image.rgb + image.row_bytes * y;
    const RowOutput row = row_of(tensor, size, y, dtype_, layout_);
    if (math_.exact) {
      kernels_->convert_row(rgb, math_, row);
    } else {
      look_up_row(rgb, {1, 3}, table_, dtype_, row);
    }
  }
}

}  // namespace feedrace::ops
