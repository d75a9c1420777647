// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feedrace/ops/kernels.h"

// AVX-512 with VBMI (byte permutes) and VNNI (four 8-bit products a lane): Ice Lake, Zen 4 and
// later. Highway has no names for these instructions, so this set is written in intrinsics.
#if defined(__x86_64__) && defined(__GNUC__)
#define FEEDRACE_HAS_VNNI 1

// g++ 12's own header sets "undefined" vectors from themselves (GCC bug 105593).
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#define FEEDRACE_VNNI                                                             \
  __attribute__((                                                                 \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vnni,fma,f16c," \
             "bmi2")))
// Helpers that take vectors must be inlined: only functions with one target may be, into each
// other.
#define FEEDRACE_VNNI_INLINE FEEDRACE_VNNI __attribute__((always_inline)) inline

namespace feedrace::ops::vnni {

/// The second pass and the conversion, which `Kernels` describes. In vnni_rows.cc.
void resample_row(const QuadSum& sum, const LevelMath& math, const RowOutput& output);
void convert_row(const std::uint8_t* rgb, const LevelMath& math, const RowOutput& output);

inline constexpr std::size_t kLanes = 16;
inline constexpr std::size_t kTaps = 4;  // Products that one lane of one instruction sums.

// A weight has 23 bits, a factor of the instruction 8 with its sign: three digits to base 256, each
// in [-128, 127], multiply the same pixels. The three sums are put together modulo 2^32, in which
// the true sum fits.
struct Digits {
  std::int8_t low, middle, high;
};

inline Digits digits_of(std::int32_t weight) {
  const std::int32_t without_low = (weight + 128) >> 8;
  const std::int32_t high = (without_low + 128) >> 8;
  return {static_cast<std::int8_t>(weight - without_low * 256),
          static_cast<std::int8_t>(without_low - high * 256), static_cast<std::int8_t>(high)};
}

/// The digits of four weights of each lane.
struct Weights {
  __m512i low, middle, high;
};

/// Four weights of 32 bits to the same for all lanes.
FEEDRACE_VNNI_INLINE Weights broadcast(const std::int32_t* packed) {
  return {_mm512_set1_epi32(packed[0]), _mm512_set1_epi32(packed[1]), _mm512_set1_epi32(packed[2])};
}

/// The sum of `kCount` vectors of pixels times their weights, rounded, not limited to 255: the
/// digits are taken from the highest, as one writes a number.
template <std::size_t kCount>
FEEDRACE_VNNI_INLINE __m512i weigh(const __m512i* pixels, const Weights* weights) {
  __m512i sum = _mm512_set1_epi32(1 << (kWeightBits - 1 - 16));
  for (std::size_t i = 0; i < kCount; ++i) {
    sum = _mm512_dpbusd_epi32(sum, pixels[i], weights[i].high);
  }
  sum = _mm512_slli_epi32(sum, 8);
  for (std::size_t i = 0; i < kCount; ++i) {
    sum = _mm512_dpbusd_epi32(sum, pixels[i], weights[i].middle);
  }
  sum = _mm512_slli_epi32(sum, 8);
  for (std::size_t i = 0; i < kCount; ++i) {
    sum = _mm512_dpbusd_epi32(sum, pixels[i], weights[i].low);
  }
  return _mm512_srli_epi32(sum, kWeightBits);
}

/// The same for any number of terms, one after the other.
struct Sums {
  __m512i low, middle, high;

  FEEDRACE_VNNI_INLINE Sums()
      : low(_mm512_set1_epi32(1 << (kWeightBits - 1))),
        middle(_mm512_setzero_si512()),
        high(_mm512_setzero_si512()) {}
  FEEDRACE_VNNI_INLINE void add(__m512i pixels, const Weights& weights) {
    low = _mm512_dpbusd_epi32(low, pixels, weights.low);
    middle = _mm512_dpbusd_epi32(middle, pixels, weights.middle);
    high = _mm512_dpbusd_epi32(high, pixels, weights.high);
  }
  FEEDRACE_VNNI_INLINE __m512i levels() const {
    const __m512i upper = _mm512_add_epi32(_mm512_slli_epi32(high, 8), middle);
    return _mm512_srli_epi32(_mm512_add_epi32(_mm512_slli_epi32(upper, 8), low), kWeightBits);
  }
};

/// The first `count` bytes of 64; all of them from 64 on, none below 1.
FEEDRACE_VNNI_INLINE __mmask64 first_bytes(std::ptrdiff_t count) {
  return _bzhi_u64(~0ULL, static_cast<unsigned>(std::clamp<std::ptrdiff_t>(count, 0, 64)));
}

}  // namespace feedrace::ops::vnni

#endif
