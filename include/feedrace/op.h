// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace feedrace {

class SampleRandom;

/// Mean and standard deviation of ImageNet's training pictures, of values in [0, 1], RGB
/// (torchvision's reference training script).
inline constexpr std::array<float, 3> kImagenetMean = {0.485F, 0.456F, 0.406F};
inline constexpr std::array<float, 3> kImagenetStd = {0.229F, 0.224F, 0.225F};

}  // namespace feedrace

namespace feedrace::ops {

/// 8-bit RGB pixels that somebody else owns: `height_px` rows of `width_px * 3` bytes, `row_bytes`
/// apart (may be padded).
struct ConstImageView {
  const std::uint8_t* rgb = nullptr;
  std::size_t row_bytes = 0;
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
};

struct ImageView {
  std::uint8_t* rgb = nullptr;
  std::size_t row_bytes = 0;
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;

  operator ConstImageView() const noexcept {  // NOLINT(google-explicit-constructor)
    return {rgb, row_bytes, width_px, height_px};
  }
};

struct ImageSize {
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
};

/// What lies in a border; names and meaning as torchvision and numpy have them.
enum class PadMode : std::uint8_t {
  kConstant,   ///< The fill colour.
  kEdge,       ///< The outermost pixel, repeated.
  kReflect,    ///< Mirrored at the outermost pixel, which is not repeated: c b | a b c.
  kSymmetric,  ///< Mirrored at the edge: b a | a b c. Again and again where the border is wider.
};
const char* to_string(PadMode mode) noexcept;  ///< "constant", "edge", "reflect", "symmetric".

/// A pixel function of the user's own, run on each picture between resizing and normalisation.
/// It is not fused with the decoder: it costs one more pass, and `Loader::explain()` says so.
///
/// Contract: const and thread-safe (decode threads share one instance); a function of the picture
/// and of `random` alone, so that a sample comes out the same on any thread and after resume; input
/// and output do not overlap; exceptions become the sample's failure.
class Op {
 public:
  virtual ~Op() = default;
  virtual std::string_view name() const noexcept = 0;
  /// The output's size for an input's. Must not depend on anything random.
  virtual ImageSize plan(ImageSize input) const = 0;
  virtual void run(const ConstImageView& input, const ImageView& output,
                   SampleRandom& random) const = 0;
};

}  // namespace feedrace::ops
