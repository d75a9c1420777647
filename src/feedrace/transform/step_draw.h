// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/op.h"
#include "feedrace/ops/color_jitter.h"
#include "feedrace/ops/crop_or_pad.h"
#include "feedrace/ops/flip.h"
#include "feedrace/ops/pad.h"
#include "feedrace/ops/random_erasing.h"
#include "feedrace/ops/random_resized_crop.h"
#include "feedrace/pipeline.h"

namespace feedrace::transform {

/// What every draw of a sample is a function of.
struct SampleKey {
  std::uint64_t seed = 0;
  std::uint64_t draw = 0;  ///< `order::Pick::draw`: the pass over the data set.
  std::uint64_t sample = 0;
};

/// The number for one sample. Of a coin, 0 or 1.
double value_of(const Number& number, const SampleKey& key);

/// True when it is 0 for every sample.
bool is_never(const Number& number) noexcept;

/// The stream of random numbers of each step, for `SampleRandom`. Part of what a seed means.
std::vector<std::uint32_t> streams_of(const std::vector<Step>& steps);

// A step with its numbers drawn for one picture, of a size that is known.

/// A box of the picture, resized.
struct Resampling {
  ops::CropBox box;
  ops::ImageSize output;
};
struct Graying {
  bool apply = true;
};
struct Coloring {
  bool apply = true;
  ops::ColorFactors values;
};
struct OwnOp {
  std::shared_ptr<const ops::Op> op;
  std::uint32_t stream = 0;
};
using DrawnStep =
    std::variant<Resampling, ops::CropWindow, ops::Flip, ops::Padding, Graying, Coloring, OwnOp>;

/// Draws the numbers of a step for a picture of this size. Failures: kInvalidArgument for a crop
/// that leaves the picture, borders that the picture is too small for, a size beyond all bounds.
Result<DrawnStep> draw_step(const Step& step, std::uint32_t stream, ops::ImageSize input,
                            const SampleKey& key);

/// Of the finished tensor.
struct DrawnErasing {
  ops::Erasing erasing;                      ///< In the tensor's units.
  std::optional<ops::ErasingValues> values;  ///< Nothing: nothing is erased.
};
ops::Erasing erasing_in_tensor_units(const RandomErasing& erasing, const Pipeline& pipeline);
/// Draws the erasing number `index` for a picture of this size.
DrawnErasing draw_erasing(const Pipeline& pipeline, std::size_t index, ops::ImageSize picture,
                          const SampleKey& key);

/// Throws what an own op's `plan` throws.
ops::ImageSize output_of(const DrawnStep& step, ops::ImageSize input);

}  // namespace feedrace::transform
