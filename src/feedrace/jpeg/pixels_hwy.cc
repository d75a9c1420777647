// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "feedrace/jpeg/pixels.h"
#include "feedrace/jpeg/zigzag.h"

// Highway compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "feedrace/jpeg/pixels_hwy.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3 | HWY_AVX3_DL)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#pragma GCC diagnostic pop

// Vectors of a known size only.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128 && !HWY_HAVE_SCALABLE

HWY_BEFORE_NAMESPACE();
namespace feedrace::jpeg::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

// clang-format off: the second uses what the first declares.
#include "feedrace/jpeg/idct-inl.h"
#include "feedrace/jpeg/colour-inl.h"
// clang-format on

}  // namespace

const PixelKernels* pixel_set() {
  static const PixelKernels kSet = {hwy::TargetName(HWY_TARGET),
                                    inverse_dct,
                                    upsample_across,
                                    upsample_both,
                                    upsample_down,
                                    ycc_to_rgb,
                                    planes_to_rgb};
  return &kSet;
}

}  // namespace feedrace::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

#if HWY_ONCE

namespace feedrace::jpeg {

std::vector<const PixelKernels*> pixel_kernels() {
  const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  std::vector<const PixelKernels*> sets;
#if HWY_TARGETS & HWY_NEON
  if (supported & HWY_NEON) sets.push_back(N_NEON::pixel_set());
#endif
#if HWY_TARGETS & HWY_SSE4
  if (supported & HWY_SSE4) sets.push_back(N_SSE4::pixel_set());
#endif
#if HWY_TARGETS & HWY_AVX2
  if (supported & HWY_AVX2) sets.push_back(N_AVX2::pixel_set());
#endif
  static_cast<void>(supported);
  return sets;
}

}  // namespace feedrace::jpeg
#endif
