// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/vnni_arithmetic.h"

#if defined(FEEDRACE_HAS_VNNI)

#include <cstring>

// The second pass, and conversion without resizing.
namespace feedrace::ops::vnni {
namespace {

/// 16 columns of the three channels, as 32-bit levels up to 255.
struct Pixels {
  __m512i channels[3];
};

FEEDRACE_VNNI_INLINE __mmask64 mask_of(std::size_t count) {
  return first_bytes(static_cast<std::ptrdiff_t>(count));
}

struct StoreBytes {
  using Element = std::uint8_t;
  using Vector = __m128i;
  FEEDRACE_VNNI_INLINE explicit StoreBytes(const LevelMath&) {}
  FEEDRACE_VNNI_INLINE Vector convert(__m512i levels, std::size_t) const {
    return _mm512_cvtepi32_epi8(levels);
  }
  FEEDRACE_VNNI_INLINE static void store(Vector v, std::size_t count, Element* to) {
    if (count == kLanes) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(to), v);
    } else {
      _mm_mask_storeu_epi8(to, static_cast<__mmask16>(mask_of(count)), v);
    }
  }
  FEEDRACE_VNNI_INLINE static void interleave(const Vector v[3], std::size_t count, Element* to) {
    alignas(64) static constexpr std::uint8_t kOrder[64] = {
        0,  16, 32, 1,  17, 33, 2,  18, 34, 3,  19, 35, 4,  20, 36, 5,
        21, 37, 6,  22, 38, 7,  23, 39, 8,  24, 40, 9,  25, 41, 10, 26,
        42, 11, 27, 43, 12, 28, 44, 13, 29, 45, 14, 30, 46, 15, 31, 47};
    const __m512i all =
        _mm512_inserti32x4(_mm512_inserti32x4(_mm512_castsi128_si512(v[0]), v[1], 1), v[2], 2);
    const __m512i mixed = _mm512_permutexvar_epi8(_mm512_load_si512(kOrder), all);
    _mm512_mask_storeu_epi8(to, mask_of(3 * count), mixed);
  }
};

struct StoreHalves {
  using Element = std::uint16_t;
  using Vector = __m256i;
  __m512 scale[3], bias[3];
  FEEDRACE_VNNI_INLINE explicit StoreHalves(const LevelMath& math) {
    for (std::size_t c = 0; c < 3; ++c) {
      scale[c] = _mm512_set1_ps(math.scale[c]);
      bias[c] = _mm512_set1_ps(math.bias[c]);
    }
  }
  FEEDRACE_VNNI_INLINE Vector convert(__m512i levels, std::size_t c) const {
    const __m512 values = _mm512_fmadd_ps(_mm512_cvtepi32_ps(levels), scale[c], bias[c]);
    return _mm512_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  FEEDRACE_VNNI_INLINE static void store(Vector v, std::size_t count, Element* to) {
    if (count == kLanes) {
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), v);
    } else {
      _mm256_mask_storeu_epi16(to, static_cast<__mmask16>(mask_of(count)), v);
    }
  }
  FEEDRACE_VNNI_INLINE static void interleave(const Vector v[3], std::size_t count, Element* to) {
    // Red is 0 to 15, green 16 to 31, blue 32 to 47.
    alignas(64) static constexpr std::uint16_t kFirst[32] = {
        0,  16, 32, 1,  17, 33, 2,  18, 34, 3,  19, 35, 4,  20, 36, 5,
        21, 37, 6,  22, 38, 7,  23, 39, 8,  24, 40, 9,  25, 41, 10, 26};
    alignas(64) static constexpr std::uint16_t kSecond[32] = {42, 11, 27, 43, 12, 28, 44, 13,
                                                              29, 45, 14, 30, 46, 15, 31, 47};
    const __m512i red_green = _mm512_inserti64x4(_mm512_castsi256_si512(v[0]), v[1], 1);
    const __m512i blue = _mm512_castsi256_si512(v[2]);
    const __m512i first = _mm512_permutex2var_epi16(red_green, _mm512_load_si512(kFirst), blue);
    const __m512i second = _mm512_permutex2var_epi16(red_green, _mm512_load_si512(kSecond), blue);
    const __mmask64 mask = mask_of(3 * count);
    _mm512_mask_storeu_epi16(to, static_cast<__mmask32>(mask), first);
    _mm512_mask_storeu_epi16(to + 32, static_cast<__mmask32>(mask >> 32), second);
  }
};

struct StoreFloats {
  using Element = float;
  using Vector = __m512;
  __m512 mean[3], std[3], inverse_std[3];
  FEEDRACE_VNNI_INLINE explicit StoreFloats(const LevelMath& math) {
    for (std::size_t c = 0; c < 3; ++c) {
      mean[c] = _mm512_set1_ps(math.mean[c]);
      std[c] = _mm512_set1_ps(math.std[c]);
      inverse_std[c] = _mm512_set1_ps(1.0F / math.std[c]);
    }
  }
  /// a / b by b's reciprocal and one step of Newton's on the quotient: correctly rounded but for
  /// rare b, and the levels are all tried before this is used.
  FEEDRACE_VNNI_INLINE static __m512 divide(__m512 a, __m512 b, __m512 inverse) {
    const __m512 quotient = _mm512_mul_ps(a, inverse);
    const __m512 rest = _mm512_fnmadd_ps(quotient, b, a);
    return _mm512_fmadd_ps(rest, inverse, quotient);
  }
  FEEDRACE_VNNI_INLINE Vector convert(__m512i levels, std::size_t c) const {
    const __m512 share =
        divide(_mm512_cvtepi32_ps(levels), _mm512_set1_ps(255.0F), _mm512_set1_ps(1.0F / 255.0F));
    return divide(_mm512_sub_ps(share, mean[c]), std[c], inverse_std[c]);
  }
  FEEDRACE_VNNI_INLINE static void store(Vector v, std::size_t count, Element* to) {
    if (count == kLanes) {
      _mm512_storeu_ps(to, v);
    } else {
      _mm512_mask_storeu_ps(to, static_cast<__mmask16>(mask_of(count)), v);
    }
  }
  FEEDRACE_VNNI_INLINE static void interleave(const Vector v[3], std::size_t count, Element* to) {
    // Of each 16 outputs: red and green by one permute (green is 16 to 31), blue by the next.
    alignas(64) static constexpr std::uint32_t kRedGreen[3][16] = {
        {0, 16, 0, 1, 17, 0, 2, 18, 0, 3, 19, 0, 4, 20, 0, 5},
        {21, 0, 6, 22, 0, 7, 23, 0, 8, 24, 0, 9, 25, 0, 10, 26},
        {0, 11, 27, 0, 12, 28, 0, 13, 29, 0, 14, 30, 0, 15, 31, 0}};
    alignas(64) static constexpr std::uint32_t kBlue[3][16] = {
        {0, 1, 16, 3, 4, 17, 6, 7, 18, 9, 10, 19, 12, 13, 20, 15},
        {0, 21, 2, 3, 22, 5, 6, 23, 8, 9, 24, 11, 12, 25, 14, 15},
        {26, 1, 2, 27, 4, 5, 28, 7, 8, 29, 10, 11, 30, 13, 14, 31}};
    const __mmask64 mask = mask_of(3 * count);
    for (std::size_t part = 0; part < 3; ++part) {
      const __m512 red_green =
          _mm512_permutex2var_ps(v[0], _mm512_load_si512(kRedGreen[part]), v[1]);
      const __m512 all = _mm512_permutex2var_ps(red_green, _mm512_load_si512(kBlue[part]), v[2]);
      _mm512_mask_storeu_ps(to + part * 16, static_cast<__mmask16>(mask >> (16 * part)), all);
    }
  }
};

template <typename Store, Layout kLayout>
FEEDRACE_VNNI_INLINE void store_pixels(const Store& store, const Pixels& pixels, std::size_t x,
                                       const RowOutput& output) {
  using Element = Store::Element;
  const std::size_t count = std::min(kLanes, output.width - x);
  typename Store::Vector converted[3];
  for (std::size_t c = 0; c < 3; ++c) converted[c] = store.convert(pixels.channels[c], c);
  if constexpr (kLayout == Layout::kHwc) {
    Store::interleave(converted, count, static_cast<Element*>(output.planes[0]) + 3 * x);
  } else {
    for (std::size_t c = 0; c < 3; ++c) {
      Store::store(converted[c], count, static_cast<Element*>(output.planes[c]) + x);
    }
  }
}

/// Weights to their digits, in place: three words for each quad, the fourth unused.
void pack_in_place(const QuadSum& sum) {
  for (std::size_t q = 0; q < sum.quad_count; ++q) {
    std::int8_t digits[3][kTaps];
    for (std::size_t k = 0; k < kTaps; ++k) {
      const Digits d = digits_of(sum.weights[q * kTaps + k]);
      digits[0][k] = d.low;
      digits[1][k] = d.middle;
      digits[2][k] = d.high;
    }
    std::memcpy(&sum.weights[q * kTaps], digits, sizeof(digits));
  }
}

/// Second pass: the four rows of each of `kCount` quads times its four weights.
template <std::size_t kCount>
class FewQuads {
 public:
  FEEDRACE_VNNI_INLINE explicit FewQuads(const QuadSum& sum) : plane_bytes_(sum.plane_bytes) {
    for (std::size_t q = 0; q < kCount; ++q) {
      quads_[q] = sum.quads[q];
      weights_[q] = broadcast(sum.weights + q * kTaps);
    }
  }
  FEEDRACE_VNNI_INLINE Pixels read(std::size_t x) const {
    Pixels pixels;
    for (std::size_t c = 0; c < 3; ++c) {
      __m512i columns[kCount];
      for (std::size_t q = 0; q < kCount; ++q) {
        columns[q] = _mm512_load_si512(quads_[q] + c * plane_bytes_ + x * 4);
      }
      // So few weights cannot round up to more than 255.
      pixels.channels[c] = weigh<kCount>(columns, weights_);
    }
    return pixels;
  }

 private:
  const std::uint8_t* quads_[kCount];
  Weights weights_[kCount];
  std::size_t plane_bytes_;
};

/// Second pass over any number of quads.
class ManyQuads {
 public:
  FEEDRACE_VNNI_INLINE explicit ManyQuads(const QuadSum& sum) : sum_(sum) {}
  FEEDRACE_VNNI_INLINE Pixels read(std::size_t x) const {
    Sums sums[3];
    for (std::size_t q = 0; q < sum_.quad_count; ++q) {
      const Weights weights = broadcast(sum_.weights + q * kTaps);
      for (std::size_t c = 0; c < 3; ++c) {
        const std::uint8_t* from = sum_.quads[q] + c * sum_.plane_bytes + x * 4;
        sums[c].add(_mm512_load_si512(from), weights);
      }
    }
    Pixels pixels;
    for (std::size_t c = 0; c < 3; ++c) {
      pixels.channels[c] = _mm512_min_epi32(sums[c].levels(), _mm512_set1_epi32(255));
    }
    return pixels;
  }

 private:
  const QuadSum& sum_;
};

/// 8-bit interleaved pixels as they are.
class RgbSource {
 public:
  FEEDRACE_VNNI_INLINE RgbSource(const std::uint8_t* rgb, std::size_t width)
      : rgb_(rgb), width_(width) {}
  FEEDRACE_VNNI_INLINE Pixels read(std::size_t x) const {
    const __mmask64 mask = mask_of(3 * std::min(kLanes, width_ - x));
    const __m512i bytes = _mm512_maskz_loadu_epi8(mask, rgb_ + 3 * x);
    const __m128i thirds =
        _mm_setr_epi8(0, 3, 6, 9, 12, 15, 18, 21, 24, 27, 30, 33, 36, 39, 42, 45);
    Pixels pixels;
    for (std::size_t c = 0; c < 3; ++c) {
      const __m128i index = _mm_add_epi8(thirds, _mm_set1_epi8(static_cast<char>(c)));
      const __m512i picked = _mm512_permutexvar_epi8(_mm512_castsi128_si512(index), bytes);
      pixels.channels[c] = _mm512_cvtepu8_epi32(_mm512_castsi512_si128(picked));
    }
    return pixels;
  }

 private:
  const std::uint8_t* rgb_;
  std::size_t width_;
};

template <typename Store, typename Source>
FEEDRACE_VNNI_INLINE void run_store(const Source& source, const LevelMath& math,
                                    const RowOutput& output) {
  const Store store(math);
  if (output.layout == Layout::kHwc) {
    for (std::size_t x = 0; x < output.width; x += kLanes) {
      store_pixels<Store, Layout::kHwc>(store, source.read(x), x, output);
    }
  } else {
    for (std::size_t x = 0; x < output.width; x += kLanes) {
      store_pixels<Store, Layout::kChw>(store, source.read(x), x, output);
    }
  }
}

template <typename Source>
FEEDRACE_VNNI_INLINE void run(const Source& source, const LevelMath& math,
                              const RowOutput& output) {
  switch (math.dtype) {
    case DType::kFloat16:
      return run_store<StoreHalves>(source, math, output);
    case DType::kFloat32:
      return run_store<StoreFloats>(source, math, output);
    default:
      return run_store<StoreBytes>(source, math, output);
  }
}

}  // namespace

FEEDRACE_VNNI void resample_row(const QuadSum& sum, const LevelMath& math,
                                const RowOutput& output) {
  pack_in_place(sum);
  switch (sum.quad_count) {
    case 1:
      return run(FewQuads<1>(sum), math, output);
    case 2:
      return run(FewQuads<2>(sum), math, output);
    case 3:
      return run(FewQuads<3>(sum), math, output);
    default:
      return run(ManyQuads(sum), math, output);
  }
}

FEEDRACE_VNNI void convert_row(const std::uint8_t* rgb, const LevelMath& math,
                               const RowOutput& output) {
  run(RgbSource(rgb, output.width), math, output);
}

}  // namespace feedrace::ops::vnni

#endif
