// SPDX-License-Identifier: Apache-2.0
#pragma once

// The arithmetic of the fused pass on a GPU, for host and device alike: what ops/resample.h,
// ops/convert.h and ops/half.h define, to the last bit. Build it without fused multiply-adds
// (-fmad=false, -ffp-contract=off): they round once where Pillow rounds twice.

#include <cstdint>
#include <cstring>

#include "feedrace/core/host_device.h"

namespace feedrace::cuda {

/// As ops/resample.h: weights are integers of this many fractional bits.
inline constexpr int kWeightBits = 22;
/// A quad is 4 neighbours of one channel along an axis, the first in the lowest byte.
inline constexpr std::uint32_t kQuad = 4;
/// A weight has at most 23 bits: 3 bytes. Four weights are 3 words, each with one byte of the four,
/// so that three dot products of bytes do for a quad.
inline constexpr std::uint32_t kWeightWords = 3;

/// Taps of one output along an axis: [begin, begin + count) of the box's pixels.
struct Taps {
  std::uint32_t begin;
  std::uint32_t count;
};

/// The quads of an output along an axis. Quads lie at multiples of 4 from the box's edge.
struct QuadSpan {
  std::uint32_t first;
  std::uint32_t count;  ///< 0: the output lies outside of the resized picture.
};

/// One axis of a resize in Pillow's terms, as ops/resample.cc has it.
struct PillowAxis {
  double source_size;
  double scale;
  double support;
  double inverse_stretch;

  FEEDRACE_HOST_DEVICE PillowAxis(std::uint32_t source, std::uint64_t full)
      : source_size(source), scale(source_size / static_cast<double>(full)) {
    support = scale > 1.0 ? scale : 1.0;
    inverse_stretch = 1.0 / support;
  }
  FEEDRACE_HOST_DEVICE double centre(std::int64_t output) const {
    return (static_cast<double>(output) + 0.5) * scale;
  }
  FEEDRACE_HOST_DEVICE Taps taps(double centre) const {
    const double limit = centre + support + 0.5;
    const auto begin = static_cast<std::int64_t>(centre - support + 0.5);
    const auto end = static_cast<std::int64_t>(limit < source_size ? limit : source_size);
    const std::int64_t first = begin > 0 ? begin : 0;
    return {static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(end - first)};
  }
  /// Before all weights of an output are divided by their sum.
  FEEDRACE_HOST_DEVICE double raw_weight(std::uint32_t pixel, double centre) const {
    const double signed_distance = (static_cast<double>(pixel) - centre + 0.5) * inverse_stretch;
    const double distance = signed_distance < 0.0 ? -signed_distance : signed_distance;
    return distance < 1.0 ? 1.0 - distance : 0.0;
  }
  /// Summed in Pillow's order.
  FEEDRACE_HOST_DEVICE double sum(Taps taps, double centre) const {
    double sum = 0;
    for (std::uint32_t i = 0; i < taps.count; ++i) sum += raw_weight(taps.begin + i, centre);
    return sum == 0.0 ? 1.0 : sum;
  }
  /// 0 for a pixel that is no tap.
  FEEDRACE_HOST_DEVICE std::uint32_t weight(std::uint32_t pixel, Taps taps, double centre,
                                            double sum) const {
    if (pixel < taps.begin || pixel - taps.begin >= taps.count) return 0;
    return static_cast<std::uint32_t>(
        static_cast<std::int32_t>(0.5 + raw_weight(pixel, centre) / sum * (1 << kWeightBits)));
  }
};

FEEDRACE_HOST_DEVICE inline QuadSpan quads_of(Taps taps) {
  const std::uint32_t first = taps.begin / kQuad;
  return {first, (taps.begin + taps.count + kQuad - 1) / kQuad - first};
}

/// The sum of a quad's pixels by one byte of their weights.
FEEDRACE_HOST_DEVICE inline std::uint32_t dot_quad(std::uint32_t pixels, std::uint32_t weights,
                                                   std::uint32_t sum) {
#ifdef __CUDA_ARCH__
  return __dp4a(pixels, weights, sum);
#else
  for (int i = 0; i < 32; i += 8) sum += (pixels >> i & 0xFFU) * (weights >> i & 0xFFU);
  return sum;
#endif
}

/// Sums by the three bytes of the weights. Modulo 2^32 each, which the whole is below.
struct QuadSum {
  std::uint32_t by_byte[kWeightWords] = {};

  FEEDRACE_HOST_DEVICE void add(std::uint32_t pixels, const std::uint32_t weights[kWeightWords]) {
    for (std::uint32_t b = 0; b < kWeightWords; ++b) {
      by_byte[b] = dot_quad(pixels, weights[b], by_byte[b]);
    }
  }
  FEEDRACE_HOST_DEVICE std::uint32_t whole() const {
    return by_byte[0] + (by_byte[1] << 8U) + (by_byte[2] << 16U);
  }
};

/// Rounds a sum of weighted levels.
FEEDRACE_HOST_DEVICE inline std::uint32_t level_of(std::uint32_t sum) {
  const std::uint32_t level = (sum + (1U << (kWeightBits - 1))) >> kWeightBits;
  return level < 255 ? level : 255;
}

/// Byte i of the result is byte `selector` hex digit i of the eight of `low` and `high`.
FEEDRACE_HOST_DEVICE inline std::uint32_t pick_bytes(std::uint32_t low, std::uint32_t high,
                                                     std::uint32_t selector) {
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, selector);
#else
  const std::uint64_t bytes = std::uint64_t{high} << 32U | low;
  std::uint32_t result = 0;
  for (std::uint32_t i = 0; i < 4; ++i) {
    result |= static_cast<std::uint32_t>(bytes >> ((selector >> 4 * i & 7U) * 8) & 0xFFU) << 8 * i;
  }
  return result;
#endif
}

/// The 4 bytes that begin `shift` (0 to 3) bytes behind the first of `low`.
FEEDRACE_HOST_DEVICE inline std::uint32_t shift_bytes(std::uint32_t low, std::uint32_t high,
                                                      std::uint32_t shift) {
#ifdef __CUDA_ARCH__
  return __funnelshift_r(low, high, shift * 8);
#else
  return static_cast<std::uint32_t>((std::uint64_t{high} << 32U | low) >> shift * 8);
#endif
}

/// 4 interleaved RGB pixels that begin `shift` bytes behind words[0] become a quad a channel.
FEEDRACE_HOST_DEVICE inline void split_channels(const std::uint32_t words[4], std::uint32_t shift,
                                                std::uint32_t quads[3]) {
  const std::uint32_t a = shift_bytes(words[0], words[1], shift);  // RGBR
  const std::uint32_t b = shift_bytes(words[1], words[2], shift);  // GBRG
  const std::uint32_t c = shift_bytes(words[2], words[3], shift);  // BRGB
  quads[0] = pick_bytes(pick_bytes(a, b, 0x0630), c, 0x5210);
  quads[1] = pick_bytes(pick_bytes(a, b, 0x0741), c, 0x6210);
  quads[2] = pick_bytes(pick_bytes(a, b, 0x0052), c, 0x7410);
}

/// As ops/convert.h defines it, each step rounded to nearest even.
FEEDRACE_HOST_DEVICE inline float normalised(std::uint32_t level, float mean, float std) {
  const float share = static_cast<float>(level) / 255.0F;
  const float centred = share - mean;
  return centred / std;
}

FEEDRACE_HOST_DEVICE inline std::uint32_t bits_of(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
#endif
}

/// Bits of the binary16 nearest to a finite value, ties to even: ops::half_from_float.
FEEDRACE_HOST_DEVICE inline std::uint16_t half_bits(float value) {
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = bits >> 16U & 0x8000U;
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  const std::uint32_t exponent = magnitude >> 23U;
  if (exponent >= 127 + 16) return static_cast<std::uint16_t>(sign | 0x7C00U);
  if (exponent < 127 - 25) return static_cast<std::uint16_t>(sign);
  // Below 2^-14 there is no hidden bit, and the fraction moves right instead of the exponent down.
  const bool is_normal = exponent >= 127 - 14;
  const std::uint32_t fraction =
      is_normal ? magnitude - (112U << 23U) : (magnitude & 0x7FFFFFU) | 0x800000U;
  const std::uint32_t drop = is_normal ? 13 : 13 + (127 - 14 - exponent);
  const std::uint32_t kept = fraction >> drop;
  const std::uint32_t dropped = fraction & ((1U << drop) - 1);
  const std::uint32_t half = 1U << (drop - 1);
  const bool up = dropped > half || (dropped == half && (kept & 1U) != 0);
  return static_cast<std::uint16_t>(sign | (kept + (up ? 1 : 0)));
}

}  // namespace feedrace::cuda
