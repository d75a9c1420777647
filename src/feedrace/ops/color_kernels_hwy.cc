// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "feedrace/ops/color_kernels.h"

// The portable sets. Highway compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "feedrace/ops/color_kernels_hwy.cc"
#define HWY_DISABLED_TARGETS HWY_SSSE3  // Before 2008; the plain loops serve.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#pragma GCC diagnostic pop

#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128 && !HWY_HAVE_SCALABLE

HWY_BEFORE_NAMESPACE();
namespace feedrace::ops::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::ScalableTag<std::int32_t> kInts;
constexpr hn::ScalableTag<float> kFloats;
constexpr hn::Rebind<std::uint8_t, decltype(kInts)> kBytes;
using Ints = hn::Vec<decltype(kInts)>;
using Floats = hn::Vec<decltype(kFloats)>;
using Bytes = hn::Vec<decltype(kBytes)>;
constexpr std::size_t kLanes = hn::MaxLanes(kInts);

struct Pixels {
  Floats red, green, blue;
};

HWY_INLINE Floats constant(float value) { return hn::Set(kFloats, value); }
HWY_INLINE Floats cut_off(Floats v) { return hn::ConvertTo(kFloats, hn::ConvertTo(kInts, v)); }
HWY_INLINE Floats clamp(Floats v, float low, float high) {
  return hn::Min(hn::Max(v, constant(low)), constant(high));
}

HWY_INLINE Floats to_floats(Bytes levels) {
  return hn::ConvertTo(kFloats, hn::PromoteTo(kInts, levels));
}
HWY_INLINE Bytes to_bytes(Floats levels) {
  return hn::DemoteTo(kBytes, hn::ConvertTo(kInts, levels));
}

HWY_INLINE Pixels load(const std::uint8_t* rgb) {
  Bytes red, green, blue;
  hn::LoadInterleaved3(kBytes, rgb, red, green, blue);
  return {to_floats(red), to_floats(green), to_floats(blue)};
}

HWY_INLINE void store(const Pixels& pixels, std::uint8_t* rgb) {
  hn::StoreInterleaved3(to_bytes(pixels.red), to_bytes(pixels.green), to_bytes(pixels.blue), kBytes,
                        rgb);
}

/// Calls `change` for each vector of pixels and stores what it gives. `change` is a class: a lambda
/// would be compiled without the target's instructions.
template <class Change>
HWY_INLINE void change_row(std::uint8_t* rgb, std::size_t width_px, const Change& change) {
  std::size_t x = 0;
  for (; x + kLanes <= width_px; x += kLanes) store(change(load(rgb + 3 * x)), rgb + 3 * x);
  if (x == width_px) return;
  HWY_ALIGN std::uint8_t last[3 * kLanes] = {};
  std::memcpy(last, rgb + 3 * x, 3 * (width_px - x));
  store(change(load(last)), last);
  std::memcpy(rgb + 3 * x, last, 3 * (width_px - x));
}

HWY_INLINE Floats weighted(Floats level, std::uint32_t weight) {
  return hn::Mul(level, constant(static_cast<float>(weight)));
}

HWY_INLINE Floats gray_of(const Pixels& p) {
  const Floats red_green = hn::Add(weighted(p.red, kRedWeight), weighted(p.green, kGreenWeight));
  const Floats half = constant(static_cast<float>(kHalfOfWeights));
  const Floats sum = hn::Add(red_green, hn::Add(weighted(p.blue, kBlueWeight), half));
  return cut_off(hn::Mul(sum, constant(0x1.0p-16F)));
}

struct Blend {
  float factor;

  HWY_INLINE Floats level(Floats from, Floats level) const {
    const Floats step = hn::Mul(constant(factor), hn::Sub(level, from));
    return clamp(hn::Add(from, step), 0, 255);
  }
  HWY_INLINE Pixels pixels(Floats from, const Pixels& p) const {
    return {level(from, p.red), level(from, p.green), level(from, p.blue)};
  }
};

struct BlendGray {
  Blend blend;
  HWY_INLINE Pixels operator()(const Pixels& p) const { return blend.pixels(gray_of(p), p); }
};

/// As in the plain set: floor(share * 255), exactly.
HWY_INLINE Floats levels_of(Floats share) {
  const Floats level = cut_off(hn::Mul(share, constant(255)));
  const auto reached = hn::Lt(hn::Sub(hn::Mul(share, constant(256)), level), share);
  return hn::Sub(level, hn::IfThenElseZero(reached, constant(1)));
}

/// As in the plain set. What each primary gives is way * part, counted from the sextant's begin.
HWY_INLINE Floats sextants_of(const Pixels& p, Floats most, Floats part) {
  const Floats plus = constant(1);
  const Floats minus = constant(-1);
  const Floats of_red = hn::IfThenElse(hn::Ge(p.green, p.blue), minus, plus);
  const Floats of_green = hn::IfThenElse(hn::Ge(p.red, p.blue), plus, minus);
  const Floats of_blue = hn::IfThenElse(hn::Ge(p.green, p.red), plus, minus);
  const auto is_red = hn::Eq(p.red, most);
  const auto is_green = hn::Eq(p.green, most);
  const Floats way = hn::IfThenElse(is_red, of_red, hn::IfThenElse(is_green, of_green, of_blue));
  const Floats primary =
      hn::IfThenElse(is_red, hn::Zero(kFloats), hn::IfThenElse(is_green, constant(2), constant(4)));
  return hn::Add(hn::Sub(primary, way), hn::Mul(way, part));
}

HWY_INLINE Floats channel_of(Floats doubled_hue, float opposite, Floats saturation, Floats value) {
  const Floats distance = hn::Abs(hn::Sub(doubled_hue, constant(opposite)));
  const Floats shorter = hn::Min(distance, hn::Sub(constant(kCircle), distance));
  const Floats lack = clamp(hn::Sub(constant(2 * kSextant), shorter), 0, kSextant);
  const Floats whole = hn::Mul(value, hn::Sub(constant(kFullLack), hn::Mul(saturation, lack)));
  return hn::Add(hn::Mul(whole, constant(1 / kFullLack)), constant(0.5F));
}

struct TurnHue {
  std::int32_t turn;

  /// Grey needs no branch: its range of 0 gives a saturation of 0, so that the hue does not matter.
  HWY_INLINE Pixels operator()(const Pixels& p) const {
    const Floats one = constant(1);
    const Floats most = hn::Max(p.red, hn::Max(p.green, p.blue));
    const Floats least = hn::Min(p.red, hn::Min(p.green, p.blue));
    const Floats range = hn::Sub(most, least);
    const Floats sum = hn::Add(p.red, hn::Add(p.green, p.blue));
    const Floats middle = hn::Sub(hn::Sub(sum, most), least);
    const Floats part = hn::Div(hn::Sub(most, middle), hn::Max(range, one));
    const Floats circle_share = hn::Div(sextants_of(p, most, part), constant(6));
    const auto is_negative = hn::Lt(circle_share, hn::Zero(kFloats));
    const Floats hue = levels_of(hn::Add(circle_share, hn::IfThenElseZero(is_negative, one)));
    const Floats saturation = levels_of(hn::Div(range, hn::Max(most, one)));
    const Ints turned =
        hn::And(hn::Add(hn::ConvertTo(kInts, hue), hn::Set(kInts, turn)), hn::Set(kInts, 255));
    const Floats doubled_hue = hn::ConvertTo(kFloats, hn::Add(turned, turned));
    return {channel_of(doubled_hue, kOppositeRed, saturation, most),
            channel_of(doubled_hue, kOppositeGreen, saturation, most),
            channel_of(doubled_hue, kOppositeBlue, saturation, most)};
  }
};

/// All channels alike: no need to tell them apart.
void blend_row(std::uint8_t* rgb, std::size_t width_px, std::uint8_t from, float factor) {
  const Blend blend{factor};
  const Floats from_level = constant(from);
  const std::size_t size = width_px * 3;
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    const Floats levels = to_floats(hn::LoadU(kBytes, rgb + i));
    hn::StoreU(to_bytes(blend.level(from_level, levels)), kBytes, rgb + i);
  }
  if (i == size) return;
  HWY_ALIGN std::uint8_t last[kLanes] = {};
  std::memcpy(last, rgb + i, size - i);
  const Floats levels = to_floats(hn::Load(kBytes, last));
  hn::Store(to_bytes(blend.level(from_level, levels)), kBytes, last);
  std::memcpy(rgb + i, last, size - i);
}

void blend_gray_row(std::uint8_t* rgb, std::size_t width_px, float factor) {
  change_row(rgb, width_px, BlendGray{{factor}});
}

std::uint32_t sum_gray_row(const std::uint8_t* rgb, std::size_t width_px) {
  Ints sums = hn::Zero(kInts);
  std::size_t x = 0;
  for (; x + kLanes <= width_px; x += kLanes) {
    sums = hn::Add(sums, hn::ConvertTo(kInts, gray_of(load(rgb + 3 * x))));
  }
  if (x < width_px) {  // Black, which adds nothing, fills the last vector.
    HWY_ALIGN std::uint8_t last[3 * kLanes] = {};
    std::memcpy(last, rgb + 3 * x, 3 * (width_px - x));
    sums = hn::Add(sums, hn::ConvertTo(kInts, gray_of(load(last))));
  }
  return static_cast<std::uint32_t>(hn::GetLane(hn::SumOfLanes(kInts, sums)));
}

void turn_hue_row(std::uint8_t* rgb, std::size_t width_px, std::int32_t turn) {
  change_row(rgb, width_px, TurnHue{turn});
}

}  // namespace

const ColorKernels* color_kernels() {
  static const ColorKernels kSet = {hwy::TargetName(HWY_TARGET), blend_row, blend_gray_row,
                                    sum_gray_row, turn_hue_row};
  return &kSet;
}

}  // namespace feedrace::ops::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

#if HWY_ONCE

namespace feedrace::ops {

std::vector<const ColorKernels*> highway_color_kernels() {
  const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  std::vector<const ColorKernels*> sets;
  // Slowest first.
#if HWY_TARGETS & HWY_NEON
  if (supported & HWY_NEON) sets.push_back(N_NEON::color_kernels());
#endif
#if HWY_TARGETS & HWY_SSE4
  if (supported & HWY_SSE4) sets.push_back(N_SSE4::color_kernels());
#endif
#if HWY_TARGETS & HWY_AVX2
  if (supported & HWY_AVX2) sets.push_back(N_AVX2::color_kernels());
#endif
#if HWY_TARGETS & HWY_AVX3
  if (supported & HWY_AVX3) sets.push_back(N_AVX3::color_kernels());
#endif
  static_cast<void>(supported);
  return sets;
}

}  // namespace feedrace::ops
#endif
