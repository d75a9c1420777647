// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "feedrace/op.h"
#include "feedrace/ops/kernels.h"
#include "feedrace/tensor.h"

namespace feedrace::ops {

/// What a picture's values become in the batch.
struct TensorFormat {
  DType dtype = DType::kFloat16;  ///< kUint8, kFloat16 or kFloat32.
  Layout layout = Layout::kChw;
  std::vector<float> mean;  ///< Of values in [0, 1], one a channel. Empty: 0.
  std::vector<float> std;   ///< Likewise. Empty: 1.
};

/// The value of each of the 256 levels in each of the three channels. This is the definition of
/// what Feedrace puts into a batch: in float32, each step rounded to nearest even, as torchvision's
/// ToTensor and Normalize do it,
///
///     (float(level) / 255.0f - mean) / std
///
/// and for float16 that value rounded once more, to nearest even.
struct LevelTable {
  std::array<std::array<float, 256>, 3> values;
  std::array<std::array<std::uint16_t, 256>, 3> halves;  ///< Bits of IEEE 754 binary16.
};

/// Throws Error kInvalidArgument: mean or std not of length 0 or 3, a std that is 0 or not finite,
/// a mean that is not finite, values that float16 cannot hold, mean or std with kUint8, kInt64.
void check(const TensorFormat& format);
LevelTable make_level_table(const TensorFormat& format);

/// Turns 8-bit RGB rows into a tensor: the step behind a pipeline's own ops. (Without them,
/// `FusedPass` does it while resizing.) One instance may serve many threads.
class Converter {
 public:
  /// Throws what `check` throws.
  explicit Converter(const TensorFormat& format, const Kernels& kernels = best_kernels());

  /// Bytes of a picture of this size.
  std::size_t tensor_bytes(ImageSize size) const noexcept;

  /// Writes the whole picture to `tensor`, `tensor_bytes` bytes, [3, H, W] or [H, W, 3]. `tensor`
  /// is aligned to the element; it does not overlap `image`.
  void convert(const ConstImageView& image, void* tensor) const noexcept;

 private:
  const Kernels* kernels_;
  DType dtype_;
  Layout layout_;
  LevelTable table_;
  LevelMath math_;
};

}  // namespace feedrace::ops
