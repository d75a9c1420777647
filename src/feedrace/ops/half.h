// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace feedrace::ops {

/// Bits of the IEEE 754 binary16 nearest to `value`, ties to even; infinity beyond 65519.99, a
/// quiet NaN (with the upper payload bits) for a NaN.
std::uint16_t half_from_float(float value) noexcept;

/// The value of binary16 `bits`, exactly.
float float_from_half(std::uint16_t bits) noexcept;

}  // namespace feedrace::ops
