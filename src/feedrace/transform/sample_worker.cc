// SPDX-License-Identifier: Apache-2.0
#include "feedrace/transform/sample_worker.h"

#include <cstring>
#include <exception>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "feedrace/ops/random_erasing.h"
#include "feedrace/random.h"
#include "feedrace/transform/raw_sample.h"

namespace feedrace::transform {
namespace {

ops::TensorFormat batch_format(const Pipeline& pipeline) {
  return {pipeline.dtype, pipeline.layout, pipeline.mean, pipeline.std};
}

ops::TensorFormat pixel_format() { return {DType::kUint8, Layout::kHwc, {}, {}}; }

}  // namespace

SampleWorker::SampleWorker(const Pipeline& pipeline, std::uint64_t seed,
                           const decode::DecodeLimits& limits, decode::JpegEngine engine)
    : pipeline_(pipeline),
      seed_(seed),
      max_pixels_(limits.max_pixels),
      streams_(streams_of(pipeline.steps)),
      fused_count_(pipeline.fused_count()),
      output_size_(pipeline.output_size()),
      decoder_(limits, pipeline.orientation == Orientation::kUpright, engine),
      pass_(batch_format(pipeline)),
      pixels_(pixel_format()),
      converter_(batch_format(pipeline)) {}

Result<FusedHead> SampleWorker::draw_head(const decode::ImageInfo& info,
                                          const SampleKey& key) const {
  FusedHead head({info.width_px, info.height_px});
  for (std::size_t i = 0; i < fused_count_; ++i) {
    const auto drawn = draw_step(pipeline_.steps[i], streams_[i], head.output(), key);
    if (!drawn) return drawn.error();
    head.add(*drawn);
  }
  return head;
}

/// A line of pixels that is resized by its shorter side can become any length.
Result<void> SampleWorker::check_output(ops::ImageSize size) const {
  if (std::uint64_t{size.width_px} * size.height_px <= max_pixels_) return {};
  return Failure{ErrorCode::kCorruptData,
                 fmt::format("it would become {} x {} px, above max_pixels = {}; bound its longer "
                             "side, or raise max_pixels",
                             size.width_px, size.height_px, max_pixels_)};
}

Result<void> SampleWorker::decode_through(ops::FusedPass& pass, const FusedHead& head, void* out) {
  pass.begin({head.resize(), head.flip()}, out);
  const ops::CropBox& source = pass.source();
  const decode::Region region{head.crop().x_px + source.x_px, head.crop().y_px + source.y_px,
                              source.width_px, source.height_px};
  if (auto begun = decoder_.begin(region); !begun) return begun;
  if (const decode::PixelRows rows = decoder_.rows_in_place(); rows.rgb != nullptr) {
    pass.push_rows(rows.rgb, rows.row_bytes, region.height_px);
    return {};
  }
  const std::size_t row_bytes = std::size_t{3} * region.width_px;
  band_.resize(row_bytes * ops::FusedPass::kBandRows);
  while (const std::uint32_t rows = pass.rows_wanted()) {
    if (auto read = decoder_.read_rows(band_.data(), row_bytes, rows); !read) return read;
    pass.push_rows(band_.data(), row_bytes, rows);
  }
  return {};
}

/// Runs the steps that are not fused one after another on the runner's picture, then converts it.
Result<void> SampleWorker::run_unfused(const SampleKey& key, const TensorPlace& place,
                                       void*& tensor, ops::ImageSize& size) {
  for (std::size_t i = fused_count_; i < pipeline_.steps.size(); ++i) {
    const auto drawn = draw_step(pipeline_.steps[i], streams_[i], runner_.size(), key);
    if (!drawn) return drawn.error();
    if (auto fits = check_output(runner_.planned(*drawn)); !fits) return fits;
    if (auto done = runner_.run(*drawn, key); !done) return done;
  }
  size = runner_.size();
  tensor = place(size);
  converter_.convert(runner_.image(), tensor);
  return {};
}

void SampleWorker::erase(const SampleKey& key, ops::ImageSize size, void* tensor) const {
  for (std::size_t i = 0; i < pipeline_.erasings.size(); ++i) {
    const DrawnErasing drawn = draw_erasing(pipeline_, i, size, key);
    if (!drawn.values) continue;
    ops::erase(tensor, pipeline_.dtype, pipeline_.layout, size, drawn.erasing, *drawn.values);
  }
}

/// The only copy of the numbers: from the read buffer to the batch.
Result<std::string> SampleWorker::copy_raw(std::span<const std::byte> sample,
                                           const TensorPlace& place) const {
  const auto values = find_raw_values(*pipeline_.raw, sample, sample.size());
  if (!values) return values.error();
  std::memcpy(place({}), sample.data() + values->at_bytes, values->size_bytes);
  return std::string();
}

Result<std::string> SampleWorker::run(std::span<const std::byte> encoded, std::uint64_t draw,
                                      std::uint64_t sample, const TensorPlace& place,
                                      std::span<const std::byte> crop_index) {
  if (pipeline_.raw) return copy_raw(encoded, place);
  auto info = decoder_.open(encoded, crop_index);
  if (!info) return info.error();
  const SampleKey key{seed_, draw, sample};
  const auto head = draw_head(*info, key);
  if (!head) return head.error();
  ops::ImageSize size = head->output();
  if (auto fits = check_output(size); !fits) return fits.error();
  void* tensor = nullptr;
  if (fused_count_ == pipeline_.steps.size()) {
    tensor = place(size);
    if (auto done = decode_through(pass_, *head, tensor); !done) return done.error();
  } else {
    if (auto done = decode_through(pixels_, *head, runner_.begin(size)); !done) return done.error();
    if (auto done = run_unfused(key, place, tensor, size); !done) return done.error();
  }
  erase(key, size, tensor);
  return decoder_.complaint();
}

Result<DrawnPicture> SampleWorker::draw(std::span<const std::byte> encoded, std::uint64_t draw,
                                        std::uint64_t sample) {
  const auto info = decoder_.open(encoded);
  if (!info) return info.error();
  const auto head = this->draw(*info, draw, sample);
  if (!head) return head.error();
  return DrawnPicture{*info, *head};
}

Result<FusedHead> SampleWorker::draw(const decode::ImageInfo& info, std::uint64_t draw,
                                     std::uint64_t sample) const {
  auto head = draw_head(info, {seed_, draw, sample});
  if (!head) return head;
  if (auto fits = check_output(head->output()); !fits) return fits.error();
  return head;
}

Result<void> SampleWorker::read_box(const FusedHead& head, std::span<std::byte> rgb) {
  const ops::CropBox& box = head.crop();
  return decoder_.read_region({box.x_px, box.y_px, box.width_px, box.height_px},
                              reinterpret_cast<std::uint8_t*>(rgb.data()),
                              std::size_t{3} * box.width_px);
}

void SampleWorker::run_box(const FusedHead& head, const std::byte* rgb, std::size_t row_bytes,
                           void* tensor) {
  pass_.begin({head.resize(), head.flip()}, tensor);
  const ops::CropBox& part = pass_.source();
  const auto* box = reinterpret_cast<const std::uint8_t*>(rgb);
  pass_.push_rows(box + part.y_px * row_bytes + std::size_t{3} * part.x_px, row_bytes,
                  part.height_px);
}

std::size_t SampleWorker::scratch_bytes() const noexcept {
  return decoder_.scratch_bytes() + pass_.scratch_bytes() + pixels_.scratch_bytes() +
         runner_.scratch_bytes() + band_.capacity();
}

}  // namespace feedrace::transform
