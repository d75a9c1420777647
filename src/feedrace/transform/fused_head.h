// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "feedrace/op.h"
#include "feedrace/ops/random_resized_crop.h"
#include "feedrace/ops/resample.h"
#include "feedrace/pipeline.h"
#include "feedrace/transform/step_draw.h"

namespace feedrace::transform {

/// Which steps at the front of a pipeline one pass can do: one resize, then windows of it, black
/// borders and flips from left to right.
class HeadRules {
 public:
  /// Empty when `step` joins those before it; else why it does not, as the end of a sentence.
  std::string take(const Step& step);

 private:
  bool is_resized_ = false;
  bool is_cut_ = false;  ///< Or has borders.
  /// Of the last crop: around it lies the picture, where a step would expect nothing.
  std::optional<ops::ImageSize> window_;
  bool is_flipped_ = false;
};

/// What the pass does with one picture: decode `crop` of it, resize, keep a window, flip.
class FusedHead {
 public:
  explicit FusedHead(ops::ImageSize picture);

  /// Adds a step that the rules took, in order.
  void add(const DrawnStep& step);

  const ops::CropBox& crop() const noexcept { return crop_; }           ///< Of the picture.
  const ops::ResizeWindow& resize() const noexcept { return resize_; }  ///< Of the crop.
  bool flip() const noexcept { return flip_; }
  ops::ImageSize output() const noexcept { return resize_.output; }

 private:
  void resample(const Resampling& step);
  void cut(std::int64_t x_px, std::int64_t y_px, ops::ImageSize size);

  ops::CropBox crop_;
  ops::ResizeWindow resize_;
  bool flip_ = false;
};

}  // namespace feedrace::transform
