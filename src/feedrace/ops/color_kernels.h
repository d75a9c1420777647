// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

// The inner loops of colour adjustments, one set for each instruction set. All sets give the same
// bits, which are Pillow's. Each works on `width_px` interleaved RGB pixels.
namespace feedrace::ops {

struct ColorKernels {
  const char* name;  ///< "scalar", "SSE4", "AVX2", "AVX3".

  /// Pillow's blend of each level with `from`: from + factor * (level - from) in float, cut off,
  /// kept in 0 to 255.
  void (*blend_row)(std::uint8_t* rgb, std::size_t width_px, std::uint8_t from, float factor);

  /// The same with the pixel's grey for `from`. A factor of 0 gives that grey.
  void (*blend_gray_row)(std::uint8_t* rgb, std::size_t width_px, float factor);

  /// The sum of the greys. `width_px` below 2^23.
  std::uint32_t (*sum_gray_row)(const std::uint8_t* rgb, std::size_t width_px);

  /// To Pillow's 8-bit HSV, H + `turn` modulo 256, and back.
  void (*turn_hue_row)(std::uint8_t* rgb, std::size_t width_px, std::int32_t turn);
};

/// The sets that this machine can run, the plain one first, the fastest last.
const std::vector<const ColorKernels*>& available_color_kernels();
const ColorKernels& best_color_kernels();

// The makers of sets.
const ColorKernels& scalar_color_kernels() noexcept;
std::vector<const ColorKernels*> highway_color_kernels();

// Pillow goes to HSV and back in a mixture of float and double. The sets do it in float alone,
// which gives the same bytes for all colours and turns (see the test).

/// Of twice a hue in levels (0 to 255): the sixth of the circle that separates two primaries.
inline constexpr float kSextant = 85;
inline constexpr float kCircle = 6 * kSextant;
/// Where each channel is least: it stays so for a sextant to both sides, and fades within another.
inline constexpr float kOppositeRed = 3 * kSextant;
inline constexpr float kOppositeGreen = 5 * kSextant;
inline constexpr float kOppositeBlue = 1 * kSextant;
/// Full saturation, times what a channel then lacks at most.
inline constexpr float kFullLack = 255 * kSextant;

/// Weights of grey, of 65,536; the half rounds. The sum is exact in float.
inline constexpr std::uint32_t kRedWeight = 19595;
inline constexpr std::uint32_t kGreenWeight = 38470;
inline constexpr std::uint32_t kBlueWeight = 7471;
inline constexpr std::uint32_t kHalfOfWeights = 0x8000;

}  // namespace feedrace::ops
