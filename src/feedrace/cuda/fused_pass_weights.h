// SPDX-License-Identifier: Apache-2.0
#pragma once

// The first launch of the fused pass: weights of all outputs' columns and rows, and the table of
// levels. For `Block` see fused_pass_block.h.

#include "feedrace/cuda/fused_pass_batch.h"

namespace feedrace::cuda {

/// Weights of the quads of the output at `position` of an axis.
FEEDRACE_HOST_DEVICE inline void weigh_output(const FusedAxis& axis, bool is_rows,
                                              std::uint32_t position) {
  const PillowAxis pillow(axis.box_px, axis.full_px);
  const std::uint32_t unmirrored = axis.mirror != 0 ? axis.output_px - 1 - position : position;
  const double centre = pillow.centre(axis.window_px + std::int64_t{unmirrored});
  const Taps taps = pillow.taps(centre);
  const double sum = pillow.sum(taps, centre);
  const QuadSpan span = quads_of(taps);
  const std::uint32_t index = position - axis.valid_begin;
  at_address<QuadSpan>(axis.spans)[index] = span;
  for (std::uint32_t q = 0; q < span.count; ++q) {
    Words words = {};
    for (std::uint32_t i = 0; i < kQuad; ++i) {
      const std::uint32_t weight = pillow.weight((span.first + q) * kQuad + i, taps, centre, sum);
      for (std::uint32_t b = 0; b < kWeightWords; ++b) {
        words.at[b] |= (weight >> 8 * b & 0xFFU) << 8 * i;
      }
    }
    if (is_rows) {
      at_address<Words>(axis.weights)[std::size_t{index} * axis.quads + q] = words;
      continue;
    }
    auto* column = at_address<std::uint32_t>(axis.weights) + index;
    for (std::uint32_t b = 0; b < kWeightWords; ++b) {
      column[std::size_t{q * kWeightWords + b} * axis.valid_count()] = words.at[b];
    }
  }
}

template <typename Block>
FEEDRACE_HOST_DEVICE void fill_table(const Block& block, const FusedBatch& batch) {
  for (std::uint32_t i = block.thread(); i < 3 * 256; i += block.threads()) {
    const float value = normalised(i % 256, batch.mean[i / 256], batch.std[i / 256]);
    if (batch.dtype == 1) {
      at_address<std::uint16_t>(batch.table)[i] = half_bits(value);
    } else {
      at_address<float>(batch.table)[i] = value;
    }
  }
}

/// Blocks: [image, axis].
template <typename Block>
FEEDRACE_HOST_DEVICE void fused_weights_block(const Block& block, const FusedBatch& batch,
                                              std::uint32_t image, std::uint32_t axis) {
  const FusedImage& of = at_address<const FusedImage>(batch.images)[image];
  const FusedAxis& along = axis == 0 ? of.x : of.y;
  for (std::uint32_t i = along.valid_begin + block.thread(); i < along.valid_end;
       i += block.threads()) {
    weigh_output(along, axis == 1, i);
  }
  if (image == 0 && axis == 0 && batch.dtype != 0) fill_table(block, batch);
}

}  // namespace feedrace::cuda
