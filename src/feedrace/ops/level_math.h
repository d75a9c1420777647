// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feedrace/ops/convert.h"
#include "feedrace/ops/kernels.h"

namespace feedrace::ops {

/// Finds arithmetic with which `kernels` gives every entry of `table`, and proves it by running the
/// kernel over all of them. Where there is none, `exact` is false: then look levels up.
LevelMath find_level_math(const TensorFormat& format, const LevelTable& table,
                          const Kernels& kernels);

/// How far apart levels lie: {1, 3} in interleaved rows.
struct LevelSteps {
  std::size_t channel_bytes = 1;
  std::size_t column_bytes = 3;
};

/// Looks a row's levels up in `table` and stores them.
void look_up_row(const std::uint8_t* levels, LevelSteps steps, const LevelTable& table, DType dtype,
                 const RowOutput& output) noexcept;

/// The row `y` of a tensor of `size` at `tensor`.
RowOutput row_of(void* tensor, ImageSize size, std::uint32_t y, DType dtype,
                 Layout layout) noexcept;

}  // namespace feedrace::ops
