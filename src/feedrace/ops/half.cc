// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/half.h"

#include <bit>

namespace feedrace::ops {
namespace {

constexpr std::uint32_t kFloatInfinity = 0x7F800000;
constexpr std::uint32_t kHalfInfinity = 0x7C00;
constexpr int kDroppedBits = 23 - 10;  // Of the fraction.

/// Shifts right by `bits` (1 to 31), rounding to nearest, ties to even.
std::uint32_t shift_rounded(std::uint32_t value, int bits) {
  const std::uint32_t kept = value >> bits;
  const std::uint32_t dropped = value & ((1U << bits) - 1);
  const std::uint32_t half = 1U << (bits - 1);
  const bool up = dropped > half || (dropped == half && (kept & 1) != 0);
  return kept + (up ? 1 : 0);
}

std::uint32_t half_magnitude(std::uint32_t magnitude) {
  if (magnitude > kFloatInfinity) {
    return kHalfInfinity | 0x200 | ((magnitude >> kDroppedBits) & 0x3FF);
  }
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  if (exponent > 15) return kHalfInfinity;
  // A carry out of the fraction rightly goes on into the exponent, up to infinity.
  if (exponent >= -14) return shift_rounded(magnitude - (112U << 23), kDroppedBits);
  if (exponent < -25) return 0;  // Under half of the least subnormal, 2^-24.
  const std::uint32_t fraction = (magnitude & 0x7FFFFF) | 0x800000;
  return shift_rounded(fraction, kDroppedBits + (-14 - exponent));
}

}  // namespace

std::uint16_t half_from_float(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = bits >> 16 & 0x8000;
  return static_cast<std::uint16_t>(sign | half_magnitude(bits & 0x7FFFFFFF));
}

float float_from_half(std::uint16_t bits) noexcept {
  const std::uint32_t sign = (bits & 0x8000U) << 16;
  const std::uint32_t exponent = bits >> 10 & 0x1F;
  const std::uint32_t fraction = bits & 0x3FF;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1.0p-24F;
    return sign != 0 ? -magnitude : magnitude;
  }
  const std::uint32_t wide = exponent == 0x1F ? 0xFFU : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << kDroppedBits);
}

}  // namespace feedrace::ops
