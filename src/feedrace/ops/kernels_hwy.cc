// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "feedrace/ops/kernels.h"

// The portable sets. Highway compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "feedrace/ops/kernels_hwy.cc"
#define HWY_DISABLED_TARGETS HWY_SSSE3  // Before 2008; the plain loops serve.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#pragma GCC diagnostic pop

// Vectors of a known size only: tables are packed for it.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128 && !HWY_HAVE_SCALABLE

HWY_BEFORE_NAMESPACE();
namespace feedrace::ops::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<std::uint8_t> kBytes;
constexpr hn::ScalableTag<std::int16_t> kShorts;
constexpr hn::ScalableTag<std::int32_t> kInts;
constexpr hn::ScalableTag<float> kFloats;
constexpr hn::Full128<std::uint8_t> kBytes16;
constexpr hn::Full128<std::int32_t> kInts4;
using Bytes = hn::Vec<decltype(kBytes)>;
using Shorts = hn::Vec<decltype(kShorts)>;
using Ints = hn::Vec<decltype(kInts)>;
using Floats = hn::Vec<decltype(kFloats)>;
using Bytes16 = hn::Vec<decltype(kBytes16)>;
using Ints4 = hn::Vec<decltype(kInts4)>;
constexpr std::size_t kLanes = hn::MaxLanes(kInts);
/// Rows that one vector holds 16 bytes of.
constexpr std::size_t kRows = hn::MaxLanes(kBytes) / 16;

// A weight has 23 bits, a factor of a 16-bit product 15 and a sign: the upper and the lower 16 bits
// multiply the same pixels. The upper ones, rounded, of all taps come to 128 at most: their
// products with bytes, added, fit 16 bits. The lower ones are never larger than their weights,
// which come to 2^22: 32 bits hold their sums.
constexpr int kLowBits = 16;

/// Four taps: the lower bits of the pairs (0, 2) and (1, 3), in the halves of a 32-bit lane, and
/// the upper bits of all, in its bytes.
struct TapWeights {
  std::int32_t even_low, odd_low, high;
};

std::int32_t pair(std::int32_t first, std::int32_t second) {
  return static_cast<std::int32_t>((static_cast<std::uint32_t>(first) & 0xFFFF) |
                                   static_cast<std::uint32_t>(second) << 16);
}

std::int32_t upper(std::int32_t weight) { return (weight + (1 << (kLowBits - 1))) >> kLowBits; }
/// Rounded the other way where `upper` rounds up: signed.
std::int32_t lower(std::int32_t weight) { return weight - (upper(weight) << kLowBits); }

TapWeights split(const std::int32_t* w) {
  return {pair(lower(w[0]), lower(w[2])), pair(lower(w[1]), lower(w[3])),
          upper(w[0]) | upper(w[1]) << 8 | upper(w[2]) << 16 | upper(w[3]) << 24};
}

struct TapVectors {
  Ints even_low, odd_low, high;
};

HWY_INLINE TapVectors broadcast(const TapWeights& w) {
  return {hn::Set(kInts, w.even_low), hn::Set(kInts, w.odd_low), hn::Set(kInts, w.high)};
}

/// Sums of products of 16-bit neighbours.
HWY_INLINE Ints multiply_pairs(Ints a, Ints b) {
#if HWY_ARCH_X86
  Ints unused = hn::Zero(kInts);
  return hn::ReorderWidenMulAccumulate(kInts, hn::BitCast(kShorts, a), hn::BitCast(kShorts, b),
                                       hn::Zero(kInts), unused);
#else
  const auto even = [](Ints v) { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  return hn::Add(hn::Mul(even(a), even(b)), hn::Mul(hn::ShiftRight<16>(a), hn::ShiftRight<16>(b)));
#endif
}

/// Sums of products of neighbouring bytes, those of `b` below 128; they fit 15 bits.
HWY_INLINE Shorts multiply_bytes(Bytes a, Ints b) {
#if HWY_ARCH_X86 && HWY_MAX_BYTES == 16
  return Shorts{_mm_maddubs_epi16(a.raw, b.raw)};
#elif HWY_ARCH_X86 && HWY_MAX_BYTES == 32
  return Shorts{_mm256_maddubs_epi16(a.raw, b.raw)};
#elif HWY_ARCH_X86
  return Shorts{_mm512_maddubs_epi16(a.raw, b.raw)};
#else
  const Shorts x = hn::BitCast(kShorts, a);
  const Shorts y = hn::BitCast(kShorts, b);
  const Shorts mask = hn::Set(kShorts, 0xFF);
  const Shorts odd = hn::And(hn::ShiftRight<8>(x), mask);
  return hn::Add(hn::Mul(hn::And(x, mask), hn::And(y, mask)), hn::Mul(odd, hn::ShiftRight<8>(y)));
#endif
}

struct Sums {
  Shorts high;
  Ints low;

  // Written out: g++ makes implicit constructors without the target's instructions.
  HWY_INLINE Sums() : high(hn::Zero(kShorts)), low(hn::Set(kInts, 1 << (kWeightBits - 1))) {}
  /// Adds, in each lane, four bytes times four weights.
  HWY_INLINE void add(Bytes pixels, const TapVectors& w) {
    const Ints even = hn::And(hn::BitCast(kInts, pixels), hn::Set(kInts, 0x00FF00FF));
    const Ints odd = hn::BitCast(
        kInts, hn::ShiftRight<8>(hn::BitCast(hn::RebindToUnsigned<decltype(kShorts)>(), pixels)));
    high = hn::Add(high, multiply_bytes(pixels, w.high));
    low = hn::Add(low, multiply_pairs(even, w.even_low));
    low = hn::Add(low, multiply_pairs(odd, w.odd_low));
  }
  HWY_INLINE Ints levels() const {
    const Ints ones = hn::Set(kInts, 0x00010001);
    const Ints upper_sum = multiply_pairs(hn::BitCast(kInts, high), ones);
    const Ints sum = hn::Add(hn::ShiftLeft<kLowBits>(upper_sum), low);
    return hn::Min(hn::ShiftRight<kWeightBits>(sum), hn::Set(kInts, 255));
  }
};

// ---- First pass ----
//
// Column by column: 16 bytes hold 4 taps of the three channels. A vector holds that of one to four
// rows. `ColumnTable::index`: three numbers a column, see `Placement`; `ColumnTable::packed`: a
// `TapWeights` for each group of 4 taps.

constexpr std::uint32_t kGroupTaps = 4;
constexpr std::uint32_t kGroupBytes = kGroupTaps * 3;
constexpr std::uint32_t kLoadBytes = 16;
constexpr std::uint32_t kSpareBytes = kLoadBytes - kGroupBytes;

/// Where a column's loads lie, so that none passes the end of its row: elsewhere the spare bytes of
/// a load are the last, near the end of the row the first, and groups begin early enough, with
/// weights of 0.
struct Placement {
  std::uint32_t start;          ///< First pixel of the groups.
  std::uint32_t groups;         ///< Of 4 taps.
  std::uint32_t skipped_bytes;  ///< In front of the pixels in a load: 0 or `kSpareBytes`.
};

Placement place(std::uint32_t start, std::uint32_t groups, std::uint32_t source_width) {
  const std::uint32_t end = start * 3 + groups * kGroupBytes + kSpareBytes;
  if (end <= source_width * 3) return {start, groups, 0};
  return {std::min(start, source_width - groups * kGroupTaps), groups, kSpareBytes};
}

void pack_weights(const AxisWeights& axis, std::size_t from, const Placement& at,
                  std::int8_t* packed) {
  const std::uint32_t start = axis.start[from] - axis.first;
  const std::int32_t* weights = &axis.weights[from * axis.stride];
  for (std::uint32_t group = 0; group < at.groups; ++group, packed += sizeof(TapWeights)) {
    std::int32_t four[kGroupTaps] = {};
    for (std::uint32_t k = 0; k < kGroupTaps; ++k) {
      const std::uint32_t pixel = at.start + group * kGroupTaps + k;
      if (pixel >= start && pixel - start < axis.taps[from]) four[k] = weights[pixel - start];
    }
    const TapWeights split_weights = split(four);
    std::memcpy(packed, &split_weights, sizeof(split_weights));
  }
}

void pack_columns(const AxisWeights& axis, bool flip, ColumnTable& table) {
  const std::size_t width = axis.size();
  // The same for all columns, though most need one less: nobody can foretell which.
  const auto most_groups = static_cast<std::uint32_t>(axis.stride / kGroupTaps);
  // Too narrow to begin early: the caller hands rows in memory that goes on.
  const bool narrow = axis.count < (most_groups + 1) * kGroupTaps;
  const std::uint32_t source_width = narrow ? ~0U / 4 : axis.count;
  table.width = width;
  table.row_padding_bytes = narrow ? most_groups * kGroupBytes + kLoadBytes : 0;
  table.index.clear();
  table.packed.resize(width * most_groups * sizeof(TapWeights));
  std::int8_t* packed = table.packed.data();
  for (std::size_t x = 0; x < width; ++x) {
    const std::size_t from = flip ? width - 1 - x : x;
    const Placement at = place(axis.start[from] - axis.first, most_groups, source_width);
    table.index.push_back(at.start * 3 - at.skipped_bytes);
    table.index.push_back(at.groups);
    table.index.push_back(at.skipped_bytes);
    pack_weights(axis, from, at, packed);
    packed += at.groups * sizeof(TapWeights);
  }
}

/// `load_rows`: 16 bytes of each of `kRows` rows. `join_rows`: the levels of four rows side by side
/// in each lane, [red, green, blue, anything].
#if HWY_MAX_BYTES == 16

HWY_INLINE Bytes load_rows(const std::uint8_t* const* rows, std::size_t at) {
  return hn::LoadU(kBytes, rows[0] + at);
}

HWY_INLINE Ints4 join_rows(const Ints* levels) {
  return hn::Or(hn::Or(levels[0], hn::ShiftLeft<8>(levels[1])),
                hn::Or(hn::ShiftLeft<16>(levels[2]), hn::ShiftLeft<24>(levels[3])));
}

#else

constexpr hn::Full256<std::uint8_t> kBytes32;
using Ints8 = hn::Vec<hn::Full256<std::int32_t>>;

HWY_INLINE hn::Vec<decltype(kBytes32)> load_two_rows(const std::uint8_t* const* rows,
                                                     std::size_t at) {
  return hn::Combine(kBytes32, hn::LoadU(kBytes16, rows[1] + at),
                     hn::LoadU(kBytes16, rows[0] + at));
}

/// Of rows 0 and 2, and of rows 1 and 3, in the halves.
HWY_INLINE Ints4 join_halves(Ints8 both) {
  return hn::Or(hn::LowerHalf(kInts4, both), hn::ShiftLeft<8>(hn::UpperHalf(kInts4, both)));
}

#if HWY_MAX_BYTES == 32

HWY_INLINE Bytes load_rows(const std::uint8_t* const* rows, std::size_t at) {
  return load_two_rows(rows, at);
}

HWY_INLINE Ints4 join_rows(const Ints* levels) {
  return join_halves(hn::Or(levels[0], hn::ShiftLeft<16>(levels[1])));
}

#else

HWY_INLINE Bytes load_rows(const std::uint8_t* const* rows, std::size_t at) {
  return hn::Combine(kBytes, load_two_rows(rows + 2, at), load_two_rows(rows, at));
}

HWY_INLINE Ints4 join_rows(const Ints* levels) {
  const hn::Full256<std::int32_t> half;
  return join_halves(
      hn::Or(hn::LowerHalf(half, levels[0]), hn::ShiftLeft<16>(hn::UpperHalf(half, levels[0]))));
}

#endif
#endif

/// One column of four rows. `kGroups` groups of taps, or as many as the index says where it is 0.
template <std::uint32_t kGroups>
HWY_INLINE Ints4 resample_column(const std::uint8_t* const rows[4], const std::uint32_t* index,
                                 const std::int8_t* packed) {
  // The four taps of each channel side by side; 0x80 gives 0. The second half skips 4 bytes.
  alignas(16) static constexpr std::uint8_t kByChannel[32] = {
      0, 3, 6,  9,  1, 4, 7,  10, 2, 5, 8,  11, 0x80, 0x80, 0x80, 0x80,
      4, 7, 10, 13, 5, 8, 11, 14, 6, 9, 12, 15, 0x80, 0x80, 0x80, 0x80};
  const std::size_t at = index[0];
  const std::uint32_t groups = kGroups == 0 ? index[1] : kGroups;
  const Bytes by_channel = hn::LoadDup128(kBytes, kByChannel + index[2] * 4);
  Sums sums[4 / kRows];
  for (std::uint32_t group = 0; group < groups; ++group) {
    TapWeights weights;
    std::memcpy(&weights, packed + group * sizeof(weights), sizeof(weights));
    const TapVectors vectors = broadcast(weights);
    for (std::size_t r = 0; r < 4; r += kRows) {
      const Bytes pixels = load_rows(rows + r, at + group * kGroupBytes);
      sums[r / kRows].add(hn::TableLookupBytes(pixels, by_channel), vectors);
    }
  }
  Ints levels[4 / kRows];
  for (std::size_t i = 0; i < 4 / kRows; ++i) levels[i] = sums[i].levels();
  return join_rows(levels);
}

/// Four columns of [red, green, blue, anything] to the three planes.
HWY_INLINE void store_columns(const std::int32_t* columns, std::size_t plane_bytes,
                              std::uint8_t* to) {
  Ints4 red, green, blue, rest;
  hn::LoadInterleaved4(kInts4, columns, red, green, blue, rest);
  hn::Store(hn::BitCast(kBytes16, red), kBytes16, to);
  hn::Store(hn::BitCast(kBytes16, green), kBytes16, to + plane_bytes);
  hn::Store(hn::BitCast(kBytes16, blue), kBytes16, to + 2 * plane_bytes);
}

template <std::uint32_t kGroups>
void resample_all_columns(const ColumnTable& table, const std::uint8_t* const rows[4],
                          std::uint8_t* quad) {
  const std::size_t plane_bytes = quad_plane_bytes(table.width);
  const std::uint32_t* index = table.index.data();
  const std::int8_t* packed = table.packed.data();
  HWY_ALIGN std::int32_t four[4 * 4] = {};
  for (std::size_t x = 0; x < table.width; ++x, index += 3) {
    hn::Store(resample_column<kGroups>(rows, index, packed), kInts4, four + x % 4 * 4);
    packed += (kGroups == 0 ? index[1] : kGroups) * sizeof(TapWeights);
    if (x % 4 == 3 || x + 1 == table.width) store_columns(four, plane_bytes, quad + x / 4 * 16);
  }
}

void resample_columns(const ColumnTable& table, const std::uint8_t* const rows[4],
                      std::size_t /*row_bytes*/, std::uint8_t* quad) {
  switch (table.index.empty() ? 0 : table.index[1]) {
    case 1:
      return resample_all_columns<1>(table, rows, quad);
    case 2:
      return resample_all_columns<2>(table, rows, quad);
    case 3:
      return resample_all_columns<3>(table, rows, quad);
    default:
      return resample_all_columns<0>(table, rows, quad);
  }
}

// ---- Second pass and conversion ----

/// As many columns of the three channels as a vector has lanes, as 32-bit levels up to 255.
struct Pixels {
  Ints channels[3];
};

/// Stores one vector of `D`, or its first `count` lanes.
template <class D, class V>
HWY_INLINE void store_first(D d, V v, std::size_t count, hn::TFromD<D>* to) {
  if (count == kLanes) {
    hn::StoreU(v, d, to);
    return;
  }
  HWY_ALIGN hn::TFromD<D> whole[kLanes];
  hn::Store(v, d, whole);
  std::memcpy(to, whole, count * sizeof(whole[0]));
}

template <class D, class V>
HWY_INLINE void interleave_first(D d, const V* v, std::size_t count, hn::TFromD<D>* to) {
  if (count == kLanes) {
    hn::StoreInterleaved3(v[0], v[1], v[2], d, to);
    return;
  }
  HWY_ALIGN hn::TFromD<D> whole[3 * kLanes];
  hn::StoreInterleaved3(v[0], v[1], v[2], d, whole);
  std::memcpy(to, whole, 3 * count * sizeof(whole[0]));
}

struct StoreBytes {
  using D = hn::Rebind<std::uint8_t, decltype(kInts)>;
  explicit StoreBytes(const LevelMath&) {}
  HWY_INLINE hn::Vec<D> convert(Ints levels, std::size_t) const {
    return hn::DemoteTo(D(), levels);
  }
};

using Halves = hn::Vec<hn::Rebind<std::uint16_t, decltype(kInts)>>;

/// Rounded to nearest even. `values` are in the range of halves.
#if HWY_ARCH_X86 && HWY_TARGET == HWY_SSE4
// Without an instruction for it. Adding 0.5 moves a subnormal's last bit to the float's; elsewhere
// a little less than half of the half's last bit is added, and a unit more where that bit is odd.
HWY_INLINE Halves to_halves(Floats values) {
  const hn::RebindToUnsigned<decltype(kInts)> d;
  const auto bits = hn::BitCast(d, values);
  const auto magnitude = hn::And(bits, hn::Set(d, 0x7FFFFFFF));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(d, 1));
  const auto bias = hn::Sub(hn::Set(d, 0xFFF), hn::Set(d, 112U << 23));
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, odd), bias));
  const auto half = hn::Set(kFloats, 0.5F);
  const auto subnormal =
      hn::Sub(hn::BitCast(d, hn::Add(hn::BitCast(kFloats, magnitude), half)), hn::BitCast(d, half));
  const auto is_normal = hn::Gt(hn::BitCast(kInts, magnitude), hn::Set(kInts, (113 << 23) - 1));
  const auto rounded = hn::IfThenElse(hn::RebindMask(d, is_normal), normal, subnormal);
  const auto sign = hn::ShiftRight<16>(hn::AndNot(hn::Set(d, 0x7FFFFFFF), bits));
  const auto result = hn::BitCast(kInts, hn::Or(rounded, sign));
  return hn::DemoteTo(hn::Rebind<std::uint16_t, decltype(kInts)>(), result);
}
#else
HWY_INLINE Halves to_halves(Floats values) {
  return hn::BitCast(hn::Rebind<std::uint16_t, decltype(kInts)>(),
                     hn::DemoteTo(hn::Rebind<hwy::float16_t, decltype(kInts)>(), values));
}
#endif

struct StoreHalves {
  using D = hn::Rebind<std::uint16_t, decltype(kInts)>;
  Floats scale[3], bias[3];
  HWY_INLINE explicit StoreHalves(const LevelMath& math) {
    for (std::size_t c = 0; c < 3; ++c) {
      scale[c] = hn::Set(kFloats, math.scale[c]);
      bias[c] = hn::Set(kFloats, math.bias[c]);
    }
  }
  HWY_INLINE hn::Vec<D> convert(Ints levels, std::size_t c) const {
    const Floats values = hn::MulAdd(hn::ConvertTo(kFloats, levels), scale[c], bias[c]);
    return to_halves(values);
  }
};

struct StoreFloats {
  using D = decltype(kFloats);
  Floats mean[3], std[3];
  HWY_INLINE explicit StoreFloats(const LevelMath& math) {
    for (std::size_t c = 0; c < 3; ++c) {
      mean[c] = hn::Set(kFloats, math.mean[c]);
      std[c] = hn::Set(kFloats, math.std[c]);
    }
  }
  HWY_INLINE Floats convert(Ints levels, std::size_t c) const {
    const Floats share = hn::Div(hn::ConvertTo(kFloats, levels), hn::Set(kFloats, 255.0F));
    return hn::Div(hn::Sub(share, mean[c]), std[c]);
  }
};

template <class Store>
HWY_INLINE void store_pixels(const Store& store, const Pixels& pixels, std::size_t x,
                             const RowOutput& output) {
  using D = typename Store::D;
  using Element = hn::TFromD<D>;
  const std::size_t count = std::min(kLanes, output.width - x);
  hn::Vec<D> converted[3];
  for (std::size_t c = 0; c < 3; ++c) converted[c] = store.convert(pixels.channels[c], c);
  if (output.layout == Layout::kHwc) {
    interleave_first(D(), converted, count, static_cast<Element*>(output.planes[0]) + 3 * x);
    return;
  }
  for (std::size_t c = 0; c < 3; ++c) {
    store_first(D(), converted[c], count, static_cast<Element*>(output.planes[c]) + x);
  }
}

/// Weights to their halves, in place.
void pack_in_place(const QuadSum& sum) {
  for (std::size_t q = 0; q < sum.quad_count; ++q) {
    const TapWeights weights = split(sum.weights + q * 4);
    std::memcpy(sum.weights + q * 4, &weights, sizeof(weights));
  }
}

HWY_INLINE TapVectors load_weights(const QuadSum& sum, std::size_t q) {
  TapWeights weights;
  std::memcpy(&weights, sum.weights + q * 4, sizeof(weights));
  return broadcast(weights);
}

/// Second pass: the four rows of each quad times its four weights, which are packed. `kCount`
/// quads, or any number where it is 0.
template <std::size_t kCount>
class QuadSource {
 public:
  HWY_INLINE explicit QuadSource(const QuadSum& sum) : sum_(sum) {
    for (std::size_t q = 0; q < kCount; ++q) weights_[q] = load_weights(sum, q);
  }
  HWY_INLINE Pixels read(std::size_t x) const {
    Sums sums[3];
    const std::size_t count = kCount == 0 ? sum_.quad_count : kCount;
    for (std::size_t q = 0; q < count; ++q) {
      const TapVectors weights = kCount == 0 ? load_weights(sum_, q) : weights_[q];
      for (std::size_t c = 0; c < 3; ++c) {
        sums[c].add(hn::Load(kBytes, sum_.quads[q] + c * sum_.plane_bytes + x * 4), weights);
      }
    }
    return {{sums[0].levels(), sums[1].levels(), sums[2].levels()}};
  }

 private:
  const QuadSum sum_;
  TapVectors weights_[std::max(kCount, std::size_t{1})];
};

/// 8-bit interleaved pixels as they are.
class RgbSource {
 public:
  RgbSource(const std::uint8_t* rgb, std::size_t width) : rgb_(rgb), width_(width) {}
  HWY_INLINE Pixels read(std::size_t x) const {
    const hn::Rebind<std::uint8_t, decltype(kInts)> d;
    hn::Vec<decltype(d)> red, green, blue;
    if (x + kLanes <= width_) {
      hn::LoadInterleaved3(d, rgb_ + 3 * x, red, green, blue);
    } else {
      HWY_ALIGN std::uint8_t last[3 * kLanes] = {};
      std::memcpy(last, rgb_ + 3 * x, 3 * (width_ - x));
      hn::LoadInterleaved3(d, last, red, green, blue);
    }
    return {{hn::PromoteTo(kInts, red), hn::PromoteTo(kInts, green), hn::PromoteTo(kInts, blue)}};
  }

 private:
  const std::uint8_t* rgb_;
  std::size_t width_;
};

template <class Store, class Source>
HWY_INLINE void run_store(const Source& source, const LevelMath& math, const RowOutput& output) {
  const Store store(math);
  for (std::size_t x = 0; x < output.width; x += kLanes) {
    store_pixels(store, source.read(x), x, output);
  }
}

template <class Source>
HWY_INLINE void run(const Source& source, const LevelMath& math, const RowOutput& output) {
  switch (math.dtype) {
    case DType::kFloat16:
      return run_store<StoreHalves>(source, math, output);
    case DType::kFloat32:
      return run_store<StoreFloats>(source, math, output);
    default:
      return run_store<StoreBytes>(source, math, output);
  }
}

void resample_row(const QuadSum& sum, const LevelMath& math, const RowOutput& output) {
  pack_in_place(sum);
  if (sum.quad_count == 1) return run(QuadSource<1>(sum), math, output);
  if (sum.quad_count == 2) return run(QuadSource<2>(sum), math, output);
  run(QuadSource<0>(sum), math, output);
}

void convert_row(const std::uint8_t* rgb, const LevelMath& math, const RowOutput& output) {
  run(RgbSource(rgb, output.width), math, output);
}

}  // namespace

const Kernels* kernels() {
  static const Kernels kSet = {hwy::TargetName(HWY_TARGET), pack_columns, resample_columns,
                               resample_row, convert_row};
  return &kSet;
}

}  // namespace feedrace::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

#if HWY_ONCE

namespace feedrace::ops {

std::vector<const Kernels*> highway_kernels() {
  const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  std::vector<const Kernels*> sets;
  // Slowest first.
#if HWY_TARGETS & HWY_NEON
  if (supported & HWY_NEON) sets.push_back(N_NEON::kernels());
#endif
#if HWY_TARGETS & HWY_SSE4
  if (supported & HWY_SSE4) sets.push_back(N_SSE4::kernels());
#endif
#if HWY_TARGETS & HWY_AVX2
  if (supported & HWY_AVX2) sets.push_back(N_AVX2::kernels());
#endif
#if HWY_TARGETS & HWY_AVX3
  if (supported & HWY_AVX3) sets.push_back(N_AVX3::kernels());
#endif
  static_cast<void>(supported);
  return sets;
}

}  // namespace feedrace::ops
#endif
