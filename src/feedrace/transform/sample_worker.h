// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "feedrace/decode/image_decoder.h"
#include "feedrace/error.h"
#include "feedrace/ops/convert.h"
#include "feedrace/ops/fused_pass.h"
#include "feedrace/pipeline.h"
#include "feedrace/transform/fused_head.h"
#include "feedrace/transform/step_draw.h"
#include "feedrace/transform/step_runner.h"

namespace feedrace::transform {

/// Gives room for a tensor of a picture of this size; called once a sample, when the size is known.
using TensorPlace = std::function<void*(ops::ImageSize size)>;

/// A picture that comes to a device, and the one pass that makes its tensor there.
struct DrawnPicture {
  decode::ImageInfo info;
  FusedHead head;
};

/// Turns one encoded image into its place in a batch: decoder, steps, normalisation, erasing; of a
/// raw sample the numbers, `place` being asked with no size. One instance serves one thread and
/// keeps its memory from sample to sample.
class SampleWorker {
 public:
  /// `pipeline` outlives the worker.
  SampleWorker(const Pipeline& pipeline, std::uint64_t seed, const decode::DecodeLimits& limits,
               decode::JpegEngine engine = decode::JpegEngine::kFeedrace);

  /// Writes the sample's tensor to where `place` says. The result depends on (pipeline, seed, draw,
  /// sample, encoded) alone; `draw` is `order::Pick::draw`. A Failure leaves the place in any
  /// state. The value is what the decoder complained about although it gave pixels: mostly empty.
  /// `crop_index` is the picture's, or empty; it saves time and changes nothing else.
  /// Throws what `place` throws.
  Result<std::string> run(std::span<const std::byte> encoded, std::uint64_t draw,
                          std::uint64_t sample, const TensorPlace& place,
                          std::span<const std::byte> crop_index = {});

  /// What became of the crop index in the last `run`.
  decode::CropUse crop_use() const noexcept { return decoder_.crop_use(); }

  /// What `run` would do with a picture, where all of it is one pass: nothing is decoded. The
  /// pipeline has no steps but fused ones, and no erasing. `encoded` may go afterwards, unless
  /// `read_box` follows.
  Result<DrawnPicture> draw(std::span<const std::byte> encoded, std::uint64_t draw,
                            std::uint64_t sample);

  /// The same of a picture whose header somebody else has read.
  Result<FusedHead> draw(const decode::ImageInfo& info, std::uint64_t draw,
                         std::uint64_t sample) const;

  /// Right behind `draw`: the pixels of the box that the pass reads, `head.crop()`, as rows of RGB
  /// without gaps. `rgb` has room for just them. Failures are those of `run`.
  Result<void> read_box(const FusedHead& head, std::span<std::byte> rgb);

  /// What the pass makes of such a box, its rows `row_bytes` apart: the tensor that `run` would
  /// write.
  void run_box(const FusedHead& head, const std::byte* rgb, std::size_t row_bytes, void* tensor);

  /// JPEG pictures begun, by who decoded them.
  const JpegStats& jpeg_counts() const noexcept { return decoder_.jpeg_counts(); }

  /// Memory kept now.
  std::size_t scratch_bytes() const noexcept;

 private:
  Result<std::string> copy_raw(std::span<const std::byte> sample, const TensorPlace& place) const;
  Result<FusedHead> draw_head(const decode::ImageInfo& info, const SampleKey& key) const;
  Result<void> decode_through(ops::FusedPass& pass, const FusedHead& head, void* out);
  Result<void> run_unfused(const SampleKey& key, const TensorPlace& place, void*& tensor,
                           ops::ImageSize& size);
  Result<void> check_output(ops::ImageSize size) const;
  void erase(const SampleKey& key, ops::ImageSize size, void* tensor) const;

  const Pipeline& pipeline_;
  const std::uint64_t seed_;
  const std::uint64_t max_pixels_;
  const std::vector<std::uint32_t> streams_;
  const std::size_t fused_count_;
  const std::optional<ops::ImageSize> output_size_;
  decode::ImageDecoder decoder_;
  ops::FusedPass pass_;    ///< Writes the batch.
  StepRunner runner_;      ///< Steps that are not fused; holds the picture in between.
  ops::FusedPass pixels_;  ///< Writes 8-bit pixels for them.
  ops::Converter converter_;
  std::vector<std::uint8_t> band_;
};

}  // namespace feedrace::transform
