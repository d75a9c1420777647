// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/level_math.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace feedrace::ops {
namespace {

/// `value` and its neighbours, nearest first.
float neighbour(float value, int step) {
  const float target = step < 0 ? -INFINITY : INFINITY;
  for (int i = std::abs(step); i > 0; --i) value = std::nextafter(value, target);
  return value;
}

/// True for each channel whose 256 values come out of the kernel as `table` has them.
std::array<bool, 3> matches(const LevelMath& math, const LevelTable& table,
                            const Kernels& kernels) {
  std::array<std::uint8_t, std::size_t{256} * 3> ramp;
  for (std::size_t i = 0; i < ramp.size(); ++i) ramp[i] = static_cast<std::uint8_t>(i / 3);
  std::array<std::array<float, 256>, 3> got;  // Room for halves too.
  RowOutput output;
  output.width = 256;
  for (std::size_t c = 0; c < 3; ++c) output.planes[c] = got[c].data();
  kernels.convert_row(ramp.data(), math, output);
  std::array<bool, 3> equal;
  for (std::size_t c = 0; c < 3; ++c) {
    const void* wanted = math.dtype == DType::kFloat16
                             ? static_cast<const void*>(table.halves[c].data())
                             : table.values[c].data();
    equal[c] = std::memcmp(got[c].data(), wanted, 256 * size_of(math.dtype)) == 0;
  }
  return equal;
}

/// level * scale + bias rounds twice where the definition rounds five times, so for a few levels
/// the two may fall on different sides of a tie between halves. A scale or bias that is off by a
/// few units in the last place then mostly repairs it.
bool find_scale_and_bias(const LevelTable& table, const Kernels& kernels, LevelMath& math) {
  constexpr std::array<int, 9> kSteps = {0, -1, 1, -2, 2, -3, 3, -4, 4};
  const LevelMath first = math;
  std::array<bool, 3> found{};
  for (const int scale_step : kSteps) {
    for (const int bias_step : kSteps) {
      LevelMath trial = first;
      for (std::size_t c = 0; c < 3; ++c) {
        trial.scale[c] = neighbour(first.scale[c], scale_step);
        trial.bias[c] = neighbour(first.bias[c], bias_step);
      }
      const std::array<bool, 3> equal = matches(trial, table, kernels);
      for (std::size_t c = 0; c < 3; ++c) {
        if (found[c] || !equal[c]) continue;
        math.scale[c] = trial.scale[c];
        math.bias[c] = trial.bias[c];
        found[c] = true;
      }
      if (found[0] && found[1] && found[2]) return true;
    }
  }
  return false;
}

template <typename T>
void look_up(const std::uint8_t* levels, LevelSteps steps,
             const std::array<std::array<T, 256>, 3>& table, const RowOutput& output) {
  const bool planar = output.layout == Layout::kChw;
  for (std::size_t c = 0; c < 3; ++c) {
    T* out = planar ? static_cast<T*>(output.planes[c]) : static_cast<T*>(output.planes[0]) + c;
    const std::size_t step = planar ? 1 : 3;
    const std::uint8_t* plane = levels + c * steps.channel_bytes;
    for (std::size_t x = 0; x < output.width; ++x)
      out[x * step] = table[c][plane[x * steps.column_bytes]];
  }
}

}  // namespace

LevelMath find_level_math(const TensorFormat& format, const LevelTable& table,
                          const Kernels& kernels) {
  LevelMath math;
  math.dtype = format.dtype;
  if (format.dtype == DType::kUint8) return math;
  for (std::size_t c = 0; c < 3; ++c) {
    math.mean[c] = format.mean.empty() ? 0.0F : format.mean[c];
    math.std[c] = format.std.empty() ? 1.0F : format.std[c];
    math.scale[c] = static_cast<float>(1.0 / (255.0 * double{math.std[c]}));
    math.bias[c] = static_cast<float>(-double{math.mean[c]} / math.std[c]);
  }
  if (format.dtype == DType::kFloat16) {
    math.exact = find_scale_and_bias(table, kernels, math);
  } else {
    const std::array<bool, 3> equal = matches(math, table, kernels);
    math.exact = equal[0] && equal[1] && equal[2];
  }
  return math;
}

void look_up_row(const std::uint8_t* levels, LevelSteps steps, const LevelTable& table, DType dtype,
                 const RowOutput& output) noexcept {
  if (dtype == DType::kFloat16) {
    look_up(levels, steps, table.halves, output);
  } else {
    look_up(levels, steps, table.values, output);
  }
}

RowOutput row_of(void* tensor, ImageSize size, std::uint32_t y, DType dtype,
                 Layout layout) noexcept {
  const std::size_t row_bytes = size_of(dtype) * size.width_px;
  auto* first = static_cast<std::byte*>(tensor);
  RowOutput row;
  row.layout = layout;
  row.width = size.width_px;
  if (layout == Layout::kHwc) {
    row.planes[0] = first + row_bytes * 3 * y;
    return row;
  }
  for (std::size_t c = 0; c < 3; ++c) {
    row.planes[c] = first + row_bytes * (c * size.height_px + y);
  }
  return row;
}

}  // namespace feedrace::ops
