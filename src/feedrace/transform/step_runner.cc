// SPDX-License-Identifier: Apache-2.0
#include "feedrace/transform/step_runner.h"

#include <exception>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "feedrace/ops/color_jitter.h"
#include "feedrace/ops/grayscale.h"
#include "feedrace/ops/resample.h"
#include "feedrace/random.h"

namespace feedrace::transform {
namespace {

std::size_t row_bytes_of(ops::ImageSize size) { return std::size_t{3} * size.width_px; }

}  // namespace

StepRunner::StepRunner() : pass_({DType::kUint8, Layout::kHwc, {}, {}}) {}

std::uint8_t* StepRunner::begin(ops::ImageSize size) {
  size_ = size;
  picture_.resize(row_bytes_of(size) * size.height_px);
  return picture_.data();
}

ops::ImageSize StepRunner::planned(const DrawnStep& step) const noexcept {
  try {
    return output_of(step, size_);
  } catch (...) {
    return {};
  }
}

ops::ConstImageView StepRunner::image() const noexcept {
  return {picture_.data(), row_bytes_of(size_), size_.width_px, size_.height_px};
}

ops::ImageView StepRunner::in_place() noexcept {
  return {picture_.data(), row_bytes_of(size_), size_.width_px, size_.height_px};
}

ops::ImageView StepRunner::room(ops::ImageSize size) {
  result_.resize(row_bytes_of(size) * size.height_px);
  return {result_.data(), row_bytes_of(size), size.width_px, size.height_px};
}

void StepRunner::resample(const Resampling& step) {
  const ops::CropBox& box = step.box;
  const ops::ImageView output = room(step.output);
  pass_.begin({ops::resize_to({box.width_px, box.height_px}, step.output), false}, output.rgb);
  const ops::CropBox& source = pass_.source();
  const std::size_t row_bytes = row_bytes_of(size_);
  const std::uint8_t* row = picture_.data() + (std::size_t{box.y_px} + source.y_px) * row_bytes +
                            std::size_t{3} * (std::size_t{box.x_px} + source.x_px);
  while (const std::uint32_t rows = pass_.rows_wanted()) {
    pass_.push_rows(row, row_bytes, rows);
    row += row_bytes * rows;
  }
}

Result<void> StepRunner::run_own(const OwnOp& step, const SampleKey& key) {
  try {
    const ops::ImageView output = room(step.op->plan(size_));
    SampleRandom random(key.seed, key.draw, key.sample, step.stream);
    step.op->run(image(), output, random);
    size_ = {output.width_px, output.height_px};
    std::swap(picture_, result_);
    return {};
  } catch (const std::exception& thrown) {
    return Failure{ErrorCode::kCorruptData,
                   fmt::format("op {} threw: {}; mend the op", step.op->name(), thrown.what())};
  }
}

Result<void> StepRunner::run(const DrawnStep& step, const SampleKey& key) {
  if (const auto* own = std::get_if<OwnOp>(&step)) return run_own(*own, key);
  if (const auto* graying = std::get_if<Graying>(&step)) {
    if (graying->apply) ops::grayscale(in_place());
    return {};
  }
  if (const auto* coloring = std::get_if<Coloring>(&step)) {
    if (coloring->apply) ops::color_jitter(in_place(), coloring->values);
    return {};
  }
  const auto* flip = std::get_if<ops::Flip>(&step);
  if (flip != nullptr && !flip->horizontal && !flip->vertical) return {};
  const ops::ImageSize output = output_of(step, size_);
  if (const auto* resampling = std::get_if<Resampling>(&step)) {
    resample(*resampling);
  } else if (const auto* window = std::get_if<ops::CropWindow>(&step)) {
    ops::crop_or_pad(image(), room(output), *window);
  } else if (flip != nullptr) {
    ops::flip(image(), room(output), *flip);
  } else {
    ops::pad(image(), room(output), std::get<ops::Padding>(step));
  }
  size_ = output;
  std::swap(picture_, result_);
  return {};
}

std::size_t StepRunner::scratch_bytes() const noexcept {
  return pass_.scratch_bytes() + picture_.capacity() + result_.capacity();
}

}  // namespace feedrace::transform
