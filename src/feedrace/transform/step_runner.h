// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/op.h"
#include "feedrace/ops/fused_pass.h"
#include "feedrace/transform/step_draw.h"

namespace feedrace::transform {

/// Runs steps that are not fused, one pass over the picture each. Holds the picture: 8-bit RGB,
/// rows without padding. One instance serves one thread and keeps its memory.
class StepRunner {
 public:
  StepRunner();

  /// Room for the picture that the first step works on.
  std::uint8_t* begin(ops::ImageSize size);
  /// The size behind `step`; 0 x 0 where an own op's plan throws, which `run` reports.
  ops::ImageSize planned(const DrawnStep& step) const noexcept;
  /// Failure: an own op that throws.
  Result<void> run(const DrawnStep& step, const SampleKey& key);

  ops::ImageSize size() const noexcept { return size_; }
  ops::ConstImageView image() const noexcept;
  std::size_t scratch_bytes() const noexcept;

 private:
  ops::ImageView room(ops::ImageSize size);
  ops::ImageView in_place() noexcept;
  void resample(const Resampling& step);
  Result<void> run_own(const OwnOp& step, const SampleKey& key);

  ops::FusedPass pass_;
  ops::ImageSize size_;
  std::vector<std::uint8_t> picture_;
  std::vector<std::uint8_t> result_;  // Of the step at work.
};

}  // namespace feedrace::transform
