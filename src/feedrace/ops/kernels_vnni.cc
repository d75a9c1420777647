// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/vnni_arithmetic.h"

#if defined(FEEDRACE_HAS_VNNI)

#include <array>
#include <cstring>

namespace feedrace::ops {
namespace vnni {
namespace {

// ---- First pass ----
//
// A block is 16 output columns; a group is 4 taps of each of them. The bytes that a group needs are
// picked out of a window of 128 source bytes by one permute; where shrinking spreads the columns
// further, several windows serve some lanes each.
//
// `ColumnTable::index`, for each block: groups, windows, then for each window the first pixel and
// the mask of its lanes. `ColumnTable::packed`, for each block: 64 byte indexes, then for each
// group 64 low, 64 middle, 64 high digits.

constexpr std::size_t kWindowBytes = 128;
constexpr std::uint32_t kWindowPixels = (kWindowBytes - 1 - 3 * (kTaps - 1)) / 3;

/// A block while it is packed; lanes behind the last column repeat it with weights of 0.
struct Block {
  std::array<std::uint32_t, kLanes> start{};  ///< Of the pixels handed in.
  std::array<const std::int32_t*, kLanes> weights{};
  std::uint32_t groups = 1;
};

Block block_of(const AxisWeights& axis, bool flip, std::size_t first) {
  Block block;
  const std::size_t width = axis.size();
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    const std::size_t x = std::min(first + lane, width - 1);
    const std::size_t from = flip ? width - 1 - x : x;
    block.start[lane] = axis.start[from] - axis.first;
    if (first + lane >= width) continue;
    block.weights[lane] = &axis.weights[from * axis.stride];
    block.groups = std::max(block.groups, (axis.taps[from] + 3) / 4);
  }
  return block;
}

void pack_windows(const Block& block, ColumnTable& table, std::int8_t* byte_index) {
  const std::size_t count_at = table.index.size() + 1;
  table.index.push_back(block.groups);
  table.index.push_back(0);
  std::size_t lane = 0;
  while (lane < kLanes) {
    std::uint32_t low = block.start[lane];
    std::uint32_t high = low;
    std::size_t end = lane + 1;
    for (; end < kLanes; ++end) {
      const std::uint32_t start = block.start[end];
      if (std::max(high, start) - std::min(low, start) > kWindowPixels) break;
      low = std::min(low, start);
      high = std::max(high, start);
    }
    table.index.push_back(low);
    table.index.push_back(static_cast<std::uint32_t>((1U << end) - (1U << lane)));
    ++table.index[count_at];
    for (; lane < end; ++lane) {
      for (std::size_t k = 0; k < kTaps; ++k) {
        byte_index[lane * kTaps + k] = static_cast<std::int8_t>((block.start[lane] - low + k) * 3);
      }
    }
  }
}

/// 16 weights to their low, middle and high digits, 64 bytes apart.
FEEDRACE_VNNI_INLINE void store_digits(__m512i weights, std::int8_t* to) {
  const __m512i half = _mm512_set1_epi32(128);
  const __m512i without_low = _mm512_srai_epi32(_mm512_add_epi32(weights, half), 8);
  const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(without_low, half), 8);
  // The conversions keep the lowest 8 bits, which are the digit.
  _mm_store_si128(reinterpret_cast<__m128i*>(to), _mm512_cvtepi32_epi8(weights));
  _mm_store_si128(reinterpret_cast<__m128i*>(to + 64), _mm512_cvtepi32_epi8(without_low));
  _mm_store_si128(reinterpret_cast<__m128i*>(to + 128), _mm512_cvtepi32_epi8(high));
}

// Of one group of taps of a block: low, middle and high digits, 64 bytes each.
constexpr std::size_t kBlockDigits = std::size_t{3} * 64;

FEEDRACE_VNNI void pack_digits(const Block& block, std::size_t stride, std::int8_t* digits) {
  static constexpr std::int32_t kNone[kTaps] = {};
  const auto four = [&block, stride](std::size_t lane, std::size_t group) {
    const std::int32_t* weights = block.weights[lane];
    return weights == nullptr || group * kTaps >= stride ? kNone : weights + group * kTaps;
  };
  for (std::size_t group = 0; group < block.groups; ++group, digits += kBlockDigits) {
    for (std::size_t lane = 0; lane < kLanes; lane += 4) {
      alignas(64) std::int32_t weights[4 * kTaps];
      for (std::size_t i = 0; i < 4; ++i) {
        std::memcpy(weights + i * kTaps, four(lane + i, group), kTaps * sizeof(weights[0]));
      }
      store_digits(_mm512_load_si512(weights), digits + lane * kTaps);
    }
  }
}

void pack_columns(const AxisWeights& axis, bool flip, ColumnTable& table) {
  table.width = axis.size();
  table.row_padding_bytes = 0;
  table.index.clear();
  const std::size_t blocks = (axis.size() + kLanes - 1) / kLanes;
  table.packed.assign(blocks * (64 + kBlockDigits * axis.stride / kTaps), 0);
  std::int8_t* at = table.packed.data();
  for (std::size_t first = 0; first < axis.size(); first += kLanes) {
    const Block block = block_of(axis, flip, first);
    pack_windows(block, table, at);
    pack_digits(block, axis.stride, at + 64);
    at += 64 + std::size_t{3} * 64 * block.groups;
  }
}

/// Bytes `offset` to `offset + 128` of four rows, those behind the rows' end as 0.
struct Window {
  std::ptrdiff_t offset;
  __mmask64 low, high;

  FEEDRACE_VNNI_INLINE Window(std::size_t at, std::size_t row_bytes)
      : offset(static_cast<std::ptrdiff_t>(at)),
        low(first_bytes(static_cast<std::ptrdiff_t>(row_bytes) - offset)),
        high(first_bytes(static_cast<std::ptrdiff_t>(row_bytes) - offset - 64)) {}
  FEEDRACE_VNNI_INLINE __m512i pick(const std::uint8_t* row, __m512i index) const {
    const __m512i front = _mm512_maskz_loadu_epi8(low, row + offset);
    const __m512i back = _mm512_maskz_loadu_epi8(high, row + offset + 64);
    return _mm512_permutex2var_epi8(front, index, back);
  }
};

/// 16 columns of four rows to 64 bytes: the rows' bytes of one column are neighbours.
FEEDRACE_VNNI_INLINE void store_quad(const __m512i rows[4], std::uint8_t* to) {
  const __m512i transpose =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
  const __m512i first = _mm512_packus_epi32(rows[0], rows[1]);
  const __m512i second = _mm512_packus_epi32(rows[2], rows[3]);
  const __m512i bytes = _mm512_packus_epi16(first, second);
  _mm512_store_si512(to, _mm512_shuffle_epi8(bytes, transpose));
}

struct PackedBlock {
  std::uint32_t groups;
  std::uint32_t windows;
  const std::uint32_t* window;  ///< Pairs of first pixel and mask.
  const std::int8_t* digits;
  __m512i index;
};

FEEDRACE_VNNI_INLINE Weights load_weights(const PackedBlock& block, std::size_t group) {
  const std::int8_t* digits = block.digits + group * 3 * 64;
  return {_mm512_load_si512(digits), _mm512_load_si512(digits + 64),
          _mm512_load_si512(digits + 128)};
}

/// Few taps and one window: shrinking by up to 2.3, and all enlarging.
template <std::size_t kGroups>
FEEDRACE_VNNI_INLINE void resample_near(const PackedBlock& block, std::size_t channel,
                                        const std::uint8_t* const rows[4], std::size_t row_bytes,
                                        std::uint8_t* to) {
  Weights weights[kGroups];
  for (std::size_t group = 0; group < kGroups; ++group) weights[group] = load_weights(block, group);
  __m512i levels[4];
  for (std::size_t r = 0; r < 4; ++r) {
    __m512i pixels[kGroups];
    for (std::size_t group = 0; group < kGroups; ++group) {
      const std::size_t at = block.window[0] * std::size_t{3} + group * kTaps * 3 + channel;
      pixels[group] = Window(at, row_bytes).pick(rows[r], block.index);
    }
    levels[r] = weigh<kGroups>(pixels, weights);
  }
  store_quad(levels, to);
}

/// Any number of taps and windows.
FEEDRACE_VNNI_INLINE void resample_far(const PackedBlock& block, std::size_t channel,
                                       const std::uint8_t* const rows[4], std::size_t row_bytes,
                                       std::uint8_t* to) {
  Sums sums[4];
  for (std::size_t group = 0; group < block.groups; ++group) {
    const std::size_t shift = group * kTaps * 3 + channel;
    __m512i pixels[4] = {};
    for (std::size_t w = 0; w < block.windows; ++w) {
      const Window window(block.window[2 * w] * std::size_t{3} + shift, row_bytes);
      const auto lanes = static_cast<__mmask16>(block.window[2 * w + 1]);
      for (std::size_t r = 0; r < 4; ++r) {
        pixels[r] = _mm512_mask_mov_epi32(pixels[r], lanes, window.pick(rows[r], block.index));
      }
    }
    const Weights weights = load_weights(block, group);
    for (std::size_t r = 0; r < 4; ++r) sums[r].add(pixels[r], weights);
  }
  const __m512i levels[4] = {sums[0].levels(), sums[1].levels(), sums[2].levels(),
                             sums[3].levels()};
  store_quad(levels, to);
}

FEEDRACE_VNNI_INLINE void resample_block(const PackedBlock& block, std::size_t channel,
                                         const std::uint8_t* const rows[4], std::size_t row_bytes,
                                         std::uint8_t* to) {
  if (block.windows == 1 && block.groups == 1) {
    resample_near<1>(block, channel, rows, row_bytes, to);
  } else if (block.windows == 1 && block.groups == 2) {
    resample_near<2>(block, channel, rows, row_bytes, to);
  } else {
    resample_far(block, channel, rows, row_bytes, to);
  }
}

FEEDRACE_VNNI void resample_columns(const ColumnTable& table, const std::uint8_t* const rows[4],
                                    std::size_t row_bytes, std::uint8_t* quad) {
  const std::size_t plane_bytes = quad_plane_bytes(table.width);
  const std::uint32_t* index = table.index.data();
  const std::int8_t* packed = table.packed.data();
  for (std::size_t x = 0; x < table.width; x += kLanes, quad += 64) {
    const PackedBlock block = {index[0], index[1], index + 2, packed + 64,
                               _mm512_load_si512(packed)};
    for (std::size_t c = 0; c < 3; ++c) {
      resample_block(block, c, rows, row_bytes, quad + c * plane_bytes);
    }
    index += 2 + std::size_t{2} * block.windows;
    packed += 64 + std::size_t{3} * 64 * block.groups;
  }
}

constexpr Kernels kVnni = {"AVX512_VNNI", pack_columns, resample_columns, resample_row,
                           convert_row};

}  // namespace
}  // namespace vnni

const Kernels* vnni_kernels() noexcept {
  const bool usable = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512vbmi") &&
                      __builtin_cpu_supports("avx512vnni") && __builtin_cpu_supports("fma") &&
                      __builtin_cpu_supports("f16c") && __builtin_cpu_supports("bmi2");
  return usable ? &vnni::kVnni : nullptr;
}

}  // namespace feedrace::ops

#else

namespace feedrace::ops {
const Kernels* vnni_kernels() noexcept { return nullptr; }
}  // namespace feedrace::ops

#endif
