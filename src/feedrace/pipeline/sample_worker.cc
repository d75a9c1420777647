// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/sample_worker.h"

#include <exception>
#include <utility>

#include <fmt/format.h>

#include "feedrace/ops/random_resized_crop.h"
#include "feedrace/ops/resample.h"
#include "feedrace/random.h"

namespace feedrace::pipeline {
namespace {

// Numbers of the ops in `SampleRandom`. They are part of what a seed means: never renumber.
constexpr std::uint32_t kCropStream = 1;
constexpr std::uint32_t kFlipStream = 2;
constexpr std::uint32_t kFirstOwnOpStream = 16;

ops::TensorFormat batch_format(const Pipeline& pipeline) {
  return {pipeline.dtype, pipeline.layout, pipeline.mean, pipeline.std};
}

ops::TensorFormat pass_format(const Pipeline& pipeline) {
  if (pipeline.ops.empty()) return batch_format(pipeline);
  return {DType::kUint8, Layout::kHwc, {}, {}};
}

}  // namespace

SampleWorker::SampleWorker(const Pipeline& pipeline, std::uint64_t seed,
                           const decode::DecodeLimits& limits)
    : pipeline_(pipeline),
      seed_(seed),
      decoder_(limits, pipeline.orientation == Orientation::kUpright),
      pass_(pass_format(pipeline)),
      converter_(batch_format(pipeline)) {}

SampleWorker::Geometry SampleWorker::choose_geometry(const decode::ImageInfo& info,
                                                     std::uint64_t draw,
                                                     std::uint64_t sample) const {
  const ops::ImageSize picture{info.width_px, info.height_px};
  if (const auto& crop = pipeline_.random_resized_crop) {
    SampleRandom random(seed_, draw, sample, kCropStream);
    const ops::CropBox box =
        ops::draw_random_resized_crop(picture, crop->scale, crop->ratio, random);
    return {box, ops::resize_to({box.width_px, box.height_px}, {crop->size_px, crop->size_px})};
  }
  const ResizeCenterCrop& center = *pipeline_.resize_center_crop;
  return {{0, 0, info.width_px, info.height_px},
          ops::resize_center_crop(picture, center.resize_px, center.crop_px)};
}

Result<void> SampleWorker::decode_through_pass(const Geometry& geometry, bool flip, void* out) {
  pass_.begin({geometry.resize, flip}, out);
  const ops::CropBox& source = pass_.source();
  const decode::Region region{geometry.crop.x_px + source.x_px, geometry.crop.y_px + source.y_px,
                              source.width_px, source.height_px};
  if (auto begun = decoder_.begin(region); !begun) return begun;
  const std::size_t row_bytes = std::size_t{3} * region.width_px;
  band_.resize(row_bytes * ops::FusedPass::kBandRows);
  while (const std::uint32_t rows = pass_.rows_wanted()) {
    if (auto read = decoder_.read_rows(band_.data(), row_bytes, rows); !read) return read;
    pass_.push_rows(band_.data(), row_bytes, rows);
  }
  return {};
}

/// Runs the own ops one after another, then writes the batch.
Result<void> SampleWorker::run_ops(ops::ImageSize size, std::uint64_t draw, std::uint64_t sample,
                                   void* out) {
  std::uint32_t stream = kFirstOwnOpStream;
  for (const auto& op : pipeline_.ops) {
    try {
      const ops::ImageSize next = op->plan(size);
      result_.resize(std::size_t{3} * next.width_px * next.height_px);
      SampleRandom random(seed_, draw, sample, stream++);
      op->run({pixels_.data(), std::size_t{3} * size.width_px, size.width_px, size.height_px},
              {result_.data(), std::size_t{3} * next.width_px, next.width_px, next.height_px},
              random);
      size = next;
    } catch (const std::exception& thrown) {
      return Failure{ErrorCode::kCorruptData,
                     fmt::format("op {} threw: {}; mend the op", op->name(), thrown.what())};
    }
    std::swap(pixels_, result_);
  }
  converter_.convert(
      {pixels_.data(), std::size_t{3} * size.width_px, size.width_px, size.height_px}, out);
  return {};
}

Result<std::string> SampleWorker::run(std::span<const std::byte> encoded, std::uint64_t draw,
                                      std::uint64_t sample, void* out) {
  auto info = decoder_.open(encoded);
  if (!info) return info.error();
  const Geometry geometry = choose_geometry(*info, draw, sample);
  SampleRandom random(seed_, draw, sample, kFlipStream);
  const bool flip = ops::draw_flip(pipeline_.flip_probability, random);
  if (pipeline_.ops.empty()) {
    if (auto done = decode_through_pass(geometry, flip, out); !done) return done.error();
    return decoder_.complaint();
  }
  pixels_.resize(pass_.tensor_bytes(geometry.resize.output));
  if (auto done = decode_through_pass(geometry, flip, pixels_.data()); !done) return done.error();
  if (auto done = run_ops(geometry.resize.output, draw, sample, out); !done) return done.error();
  return decoder_.complaint();
}

std::size_t SampleWorker::scratch_bytes() const noexcept {
  return decoder_.scratch_bytes() + pass_.scratch_bytes() + band_.capacity() + pixels_.capacity() +
         result_.capacity();
}

}  // namespace feedrace::pipeline
