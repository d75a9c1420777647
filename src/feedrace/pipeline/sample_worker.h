// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "feedrace/decode/image_decoder.h"
#include "feedrace/error.h"
#include "feedrace/ops/convert.h"
#include "feedrace/ops/fused_pass.h"
#include "feedrace/pipeline.h"

namespace feedrace::pipeline {

/// Turns one encoded image into its place in a batch: decoder, geometry, own ops, normalisation.
/// One instance serves one thread and keeps its memory from sample to sample.
class SampleWorker {
 public:
  SampleWorker(const Pipeline& pipeline, std::uint64_t seed, const decode::DecodeLimits& limits);

  /// Writes the sample's tensor to `out`, one image of the batch. The result depends on (pipeline,
  /// seed, draw, sample, encoded) alone; `draw` is `order::Pick::draw`. A Failure leaves `out` in
  /// any state. The value is what the decoder complained about although it gave pixels: mostly
  /// empty.
  Result<std::string> run(std::span<const std::byte> encoded, std::uint64_t draw,
                          std::uint64_t sample, void* out);

  /// Memory kept now.
  std::size_t scratch_bytes() const noexcept;

 private:
  struct Geometry {
    ops::CropBox crop;         ///< Of the picture.
    ops::ResizeWindow resize;  ///< Of the crop.
  };

  Geometry choose_geometry(const decode::ImageInfo& info, std::uint64_t draw,
                           std::uint64_t sample) const;
  Result<void> decode_through_pass(const Geometry& geometry, bool flip, void* out);
  Result<void> run_ops(ops::ImageSize size, std::uint64_t draw, std::uint64_t sample, void* out);

  const Pipeline& pipeline_;
  const std::uint64_t seed_;
  decode::ImageDecoder decoder_;
  ops::FusedPass pass_;       ///< Writes the batch, or, with own ops, plain 8-bit pixels.
  ops::Converter converter_;  ///< Behind own ops.
  std::vector<std::uint8_t> band_;
  std::vector<std::uint8_t> pixels_;  ///< Input of the next own op.
  std::vector<std::uint8_t> result_;  ///< Its output.
};

}  // namespace feedrace::pipeline
