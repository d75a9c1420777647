// SPDX-License-Identifier: Apache-2.0
#pragma once

// The second launch of the fused pass. These are its loops, for host and device alike: a kernel
// calls one function for each block. `Block` says who the thread is and has the barriers; on the
// host a block may as well be one thread.
//
// How bytes are counted. What must move through the device's memory is, of each image, the rows and
// columns of the box that its window reads, 3 bytes a pixel, once, and the output, once. A tile of
// 64 x 32 outputs reads its part of the box and, at each edge, one filter's width that its
// neighbour reads too: (1 + 1/64)(1 + 1/32) of the box from the second-level cache, which serves
// the neighbour too, for tiles of one image run side by side. Weights are 12 to 16 bytes for 4 taps
// of an output column or row, 1 % of the box for photos.
//
// A tile's part of the source comes to shared memory as it lies, 16 bytes an asynchronous copy, so
// that a block has all its bytes in flight at once. A warp turns 4 rows of it into quads of
// columns, resamples them to 8-bit levels, and keeps those as quads of rows, of which the rows of
// the output are made. Both sums are dot products of bytes (see fused_pass_pixel.h).

#include "feedrace/cuda/fused_pass_batch.h"

namespace feedrace::cuda {

/// Memory that may be read: [begin, end).
struct Readable {
  std::uint64_t begin;
  std::uint64_t end;
};

/// Copies 16 aligned bytes to shared memory; they are there after `wait_for_copies`. Bytes outside
/// of the picture are not read.
FEEDRACE_HOST_DEVICE inline void copy_piece(std::uint8_t* to, std::uint64_t from,
                                            Readable picture) {
  if (from >= picture.begin && from + 16 <= picture.end) {
#ifdef __CUDA_ARCH__
    const auto shared = static_cast<std::uint32_t>(__cvta_generic_to_shared(to));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
#else
    std::memcpy(to, at_address<const std::uint8_t>(from), 16);
#endif
    return;
  }
  for (std::uint32_t i = 0; i < 16; ++i) {
    const bool is_inside = from + i >= picture.begin && from + i < picture.end;
    if (is_inside) to[i] = read_byte(at_address<const std::uint8_t>(from + i));
  }
}
FEEDRACE_HOST_DEVICE inline void wait_for_copies() {
#ifdef __CUDA_ARCH__
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

/// A tile's part of one axis.
struct TileAxis {
  std::uint32_t begin;  ///< Outputs.
  std::uint32_t size;
  std::uint32_t valid_begin;
  std::uint32_t valid_end;
  std::uint32_t quad_begin;  ///< Of the box, that any output needs.
  std::uint32_t quad_end;

  FEEDRACE_HOST_DEVICE TileAxis(const FusedAxis& axis, std::uint32_t tile, std::uint32_t tile_size)
      : begin(tile * tile_size), quad_begin(0), quad_end(0) {
    const std::uint32_t end =
        axis.output_px - begin < tile_size ? axis.output_px : begin + tile_size;
    size = end - begin;
    valid_begin = begin > axis.valid_begin ? begin : axis.valid_begin;
    valid_end = end < axis.valid_end ? end : axis.valid_end;
    if (is_empty()) return;
    // The ends of the range have the extremes, whichever way it is mirrored.
    const QuadSpan a = read_span(axis, valid_begin);
    const QuadSpan b = read_span(axis, valid_end - 1);
    quad_begin = a.first < b.first ? a.first : b.first;
    const std::uint32_t a_end = a.first + a.count;
    const std::uint32_t b_end = b.first + b.count;
    quad_end = a_end > b_end ? a_end : b_end;
  }
  FEEDRACE_HOST_DEVICE bool is_empty() const { return valid_begin >= valid_end; }
  FEEDRACE_HOST_DEVICE bool is_valid(std::uint32_t output) const {
    return output >= valid_begin && output < valid_end;
  }
};

template <typename Value>
struct alignas(2 * sizeof(Value)) Pair {
  Value at[2];
};

/// One tile; Value is what is stored: uint8_t, uint16_t (the bits of a binary16) or float.
template <typename Block, typename Value>
class FusedTile {
 public:
  FEEDRACE_HOST_DEVICE FusedTile(const Block& block, const FusedBatch& batch, std::uint32_t image,
                                 std::uint32_t tile, FusedShared& shared)
      : block_(block),
        batch_(batch),
        image_(at_address<const FusedImage>(batch.images)[image]),
        image_index_(image),
        shared_(shared),
        x_(image_.x, tile % image_.tiles_across, image_.tile_width),
        y_(image_.y, tile / image_.tiles_across, image_.tile_height),
        column_quads_(x_.quad_end - x_.quad_begin),
        stride_(source_stride(column_quads_)) {
    if (x_.is_empty()) y_.quad_end = y_.quad_begin;
  }

  FEEDRACE_HOST_DEVICE void run() {
    copy_table();
    block_.barrier();
    chunk_begin_ = y_.quad_begin;
    do {
      chunk_end_ = min_of(chunk_begin_ + kChunkQuads, y_.quad_end);
      resample_chunk();
      for (std::uint32_t y = block_.warp(); y < y_.size; y += block_.warps()) add_row(y_.begin + y);
      chunk_begin_ = chunk_end_;
      parity_ ^= 1U;
    } while (chunk_begin_ < y_.quad_end);
  }

 private:
  static FEEDRACE_HOST_DEVICE std::uint32_t min_of(std::uint32_t a, std::uint32_t b) {
    return a < b ? a : b;
  }

  FEEDRACE_HOST_DEVICE void copy_table() {
    if constexpr (sizeof(Value) > 1) {
      constexpr std::uint32_t kPieces = 3 * 256 * sizeof(Value) / sizeof(Words);
      for (std::uint32_t i = block_.thread(); i < kPieces; i += block_.threads()) {
        shared_.table[i] = read_words(at_address<const Words>(batch_.table) + i);
      }
    }
  }

  /// Levels of the chunk's quads of rows, as many at a time as shared memory has room for.
  FEEDRACE_HOST_DEVICE void resample_chunk() {
    const std::uint32_t step =
        image_.is_direct != 0 ? kChunkQuads : kSourceBytes / (stride_ * kQuad);
    for (std::uint32_t k = chunk_begin_; k < chunk_end_; k += step) {
      const std::uint32_t end = min_of(k + step, chunk_end_);
      if (image_.is_direct == 0) copy_source(k, end);
      wait_for_copies();
      block_.barrier();  // Copied; and all have done with the levels of the last chunk.
      for (std::uint32_t quad = k + block_.warp(); quad < end; quad += block_.warps()) {
        if (image_.is_direct != 0) {
          resample_direct(quad);
          continue;
        }
        split_rows(quad, k);
        block_.warp_barrier();
        resample_rows(quad);
        block_.warp_barrier();
      }
      block_.barrier();
    }
  }

  FEEDRACE_HOST_DEVICE std::uint64_t source_row(std::uint32_t row) const {
    return image_.pixels + static_cast<std::uint64_t>(row * image_.row_bytes) +
           std::uint64_t{x_.quad_begin} * (3 * kQuad);
  }

  FEEDRACE_HOST_DEVICE void copy_source(std::uint32_t quad, std::uint32_t quad_end) {
    const std::uint32_t first = quad * kQuad;
    const std::uint32_t end = min_of(quad_end * kQuad, image_.y.box_px);
    const Readable picture = {image_.memory_begin, image_.memory_end};
    for (std::uint32_t row = first + block_.warp(); row < end; row += block_.warps()) {
      const std::uint64_t from = source_row(row);
      const std::uint64_t aligned = from & ~std::uint64_t{15};
      const auto bytes = static_cast<std::uint32_t>(from - aligned) + column_quads_ * 3 * kQuad;
      std::uint8_t* to = shared_.source + (row - first) * stride_;
      for (std::uint32_t i = block_.lane() * 16; i < bytes; i += block_.lanes() * 16) {
        copy_piece(to + i, aligned + i, picture);
      }
    }
  }

  /// Of 4 rows. Those below the box have weight 0: any bytes will do.
  FEEDRACE_HOST_DEVICE void split_rows(std::uint32_t quad, std::uint32_t step_begin) {
    auto& columns = shared_.columns[block_.warp()];
    for (std::uint32_t i = block_.lane(); i < column_quads_ * kQuad; i += block_.lanes()) {
      const std::uint32_t row = i % kQuad;  // Neighbours write neighbouring words.
      const std::uint32_t begin =
          static_cast<std::uint32_t>(source_row(quad * kQuad + row) & 15U) + i / kQuad * 12;
      const std::uint8_t* source =
          shared_.source + ((quad - step_begin) * kQuad + row) * stride_ + begin / 4 * 4;
      const auto* words = reinterpret_cast<const std::uint32_t*>(source);
      const std::uint32_t read[4] = {words[0], words[1], words[2], words[3]};
      std::uint32_t quads[3];
      split_channels(read, begin % 4, quads);
      for (std::uint32_t c = 0; c < 3; ++c) columns[c][i / kQuad].at[row] = quads[c];
    }
  }

  /// Where the weights of a column of the output are: 3 words a quad, `valid_count` apart.
  FEEDRACE_HOST_DEVICE const std::uint32_t* column_weights(std::uint32_t x) const {
    return at_address<const std::uint32_t>(image_.x.weights) + (x - image_.x.valid_begin);
  }
  /// Goes on to the next quad.
  FEEDRACE_HOST_DEVICE void take_weights(const std::uint32_t*& at,
                                         std::uint32_t weights[kWeightWords]) const {
    for (std::uint32_t b = 0; b < kWeightWords; ++b) {
      weights[b] = read_word(at);
      at += image_.x.valid_count();
    }
  }

  FEEDRACE_HOST_DEVICE void put_levels(std::uint32_t quad, std::uint32_t x, std::uint32_t c,
                                       std::uint32_t levels) {
    const std::uint32_t column = x - x_.begin;
    const std::uint32_t element = batch_.is_hwc != 0 ? column * 3 + c : c * x_.size + column;
    shared_.levels[quad - chunk_begin_][element] = levels;
  }

  FEEDRACE_HOST_DEVICE void resample_rows(std::uint32_t quad) {
    const auto& columns = shared_.columns[block_.warp()];
    FEEDRACE_NO_UNROLL
    for (std::uint32_t x = x_.begin + block_.lane(); x < x_.begin + x_.size; x += block_.lanes()) {
      QuadSum sums[3][kQuad];
      if (x_.is_valid(x)) {
        const QuadSpan span = read_span(image_.x, x);
        const std::uint32_t* at = column_weights(x);
        const Words* first = &columns[0][span.first - x_.quad_begin];
        FEEDRACE_NO_UNROLL
        for (const Words* end = first + span.count; first < end; ++first) {
          std::uint32_t weights[kWeightWords];
          take_weights(at, weights);
          FEEDRACE_UNROLL
          for (std::uint32_t c = 0; c < 3; ++c) {
            const Words rows = first[c * kTileQuads];
            for (std::uint32_t row = 0; row < kQuad; ++row) sums[c][row].add(rows.at[row], weights);
          }
        }
      }
      for (std::uint32_t c = 0; c < 3; ++c) {
        std::uint32_t levels = 0;
        for (std::uint32_t row = 0; row < kQuad; ++row) {
          levels |= level_of(sums[c][row].whole()) << 8 * row;
        }
        put_levels(quad, x, c, levels);
      }
    }
  }

  /// Straight from global memory: for pictures that shrink to less than a 60th.
  FEEDRACE_HOST_DEVICE void resample_direct(std::uint32_t quad) {
    FEEDRACE_NO_UNROLL
    for (std::uint32_t x = x_.begin + block_.lane(); x < x_.begin + x_.size; x += block_.lanes()) {
      std::uint32_t levels[3] = {};
      for (std::uint32_t row = 0; row < kQuad && x_.is_valid(x); ++row) {
        if (quad * kQuad + row >= image_.y.box_px) break;
        std::uint32_t sums[3] = {};
        sum_direct(quad * kQuad + row, x, sums);
        for (std::uint32_t c = 0; c < 3; ++c) levels[c] |= level_of(sums[c]) << 8 * row;
      }
      for (std::uint32_t c = 0; c < 3; ++c) put_levels(quad, x, c, levels[c]);
    }
  }

  FEEDRACE_HOST_DEVICE void sum_direct(std::uint32_t row, std::uint32_t x, std::uint32_t sums[3]) {
    const std::uint8_t* pixels = at_address<const std::uint8_t>(
        image_.pixels + static_cast<std::uint64_t>(row * image_.row_bytes));
    const QuadSpan span = read_span(image_.x, x);
    const std::uint32_t* at = column_weights(x);
    for (std::uint32_t q = 0; q < span.count; ++q) {
      std::uint32_t weights[kWeightWords];
      take_weights(at, weights);
      const std::uint32_t first = (span.first + q) * kQuad;
      const std::uint32_t count = min_of(kQuad, image_.x.box_px - first);
      for (std::uint32_t i = 0; i < count; ++i) {
        const std::uint32_t weight = (weights[0] >> 8 * i & 0xFFU) |
                                     (weights[1] >> 8 * i & 0xFFU) << 8 |
                                     (weights[2] >> 8 * i & 0xFFU) << 16;
        for (std::uint32_t c = 0; c < 3; ++c) {
          sums[c] += weight * read_byte(pixels + std::size_t{first + i} * 3 + c);
        }
      }
    }
  }

  /// Adds the chunk to the output row `y`; stores it when it is whole.
  FEEDRACE_HOST_DEVICE void add_row(std::uint32_t y) {
    const bool is_black = y_.quad_begin == y_.quad_end || !y_.is_valid(y);
    if (is_black && chunk_begin_ != y_.quad_begin) return;
    const QuadSpan span = is_black ? QuadSpan{chunk_begin_, 0} : read_span(image_.y, y);
    const std::uint32_t span_end = span.first + span.count;
    const std::uint32_t begin = span.first > chunk_begin_ ? span.first : chunk_begin_;
    const std::uint32_t end = min_of(span_end, chunk_end_);
    if (begin >= end && !is_black) return;
    const bool goes_on = span.first < chunk_begin_;
    const bool stays_open = span_end > chunk_end_;
    const Words* weights = at_address<const Words>(image_.y.weights) +
                           (is_black ? 0 : std::size_t{y - image_.y.valid_begin} * image_.y.quads);
    const std::uint32_t slot = y % kOpenRows;
    const RowPlace place = place_of(y);
    for (std::uint32_t e = block_.lane() * 2; e < 3 * x_.size; e += block_.lanes() * 2) {
      std::uint32_t sums[2] = {};
      sum_quads(begin, end, weights + (begin - span.first), e, sums);
      for (std::uint32_t i = 0; i < 2; ++i) {
        if (goes_on) sums[i] += shared_.open[parity_ ^ 1U][slot][e + i];
        if (stays_open) shared_.open[parity_][slot][e + i] = sums[i];
      }
      if (!stays_open) store(place, e, level_of(sums[0]), level_of(sums[1]));
    }
  }

  FEEDRACE_HOST_DEVICE void sum_quads(std::uint32_t begin, std::uint32_t end, const Words* weights,
                                      std::uint32_t element, std::uint32_t sums[2]) const {
    QuadSum pair[2];
    for (std::uint32_t k = begin; k < end; ++k) {
      const Words of_rows = read_words(weights + (k - begin));
      const auto levels =
          *reinterpret_cast<const Pair<std::uint32_t>*>(&shared_.levels[k - chunk_begin_][element]);
      for (std::uint32_t i = 0; i < 2; ++i) pair[i].add(levels.at[i], of_rows.at);
    }
    for (std::uint32_t i = 0; i < 2; ++i) sums[i] = pair[i].whole();
  }

  /// Where the elements of a row of the tile go: element e of channel c to
  /// begin + c * plane_step + e.
  struct RowPlace {
    std::uint64_t begin;
    std::uint64_t plane_step;
  };
  FEEDRACE_HOST_DEVICE RowPlace place_of(std::uint32_t y) const {
    const std::uint64_t plane = std::uint64_t{batch_.height_px} * batch_.width_px;
    const std::uint64_t in_plane = std::uint64_t{y} * batch_.width_px + x_.begin;
    const std::uint64_t image = image_index_ * plane * 3;
    if (batch_.is_hwc != 0) return {image + in_plane * 3, 0};
    return {image + in_plane, plane - x_.size};
  }
  FEEDRACE_HOST_DEVICE std::uint32_t channel_of(std::uint32_t element) const {
    if (batch_.is_hwc != 0) return element % 3;
    return (element >= x_.size ? 1U : 0U) + (element >= 2 * x_.size ? 1U : 0U);
  }

  FEEDRACE_HOST_DEVICE Value value_of(std::uint32_t level, std::uint32_t channel) const {
    if constexpr (sizeof(Value) == 1) {
      return static_cast<Value>(level);
    } else {
      return reinterpret_cast<const Value*>(shared_.table)[channel * 256 + level];
    }
  }

  FEEDRACE_HOST_DEVICE void store(const RowPlace& row, std::uint32_t element, std::uint32_t level,
                                  std::uint32_t next_level) const {
    Value* const output = at_address<Value>(batch_.output) + row.begin;
    const std::uint32_t channel = channel_of(element);
    const std::uint32_t next = channel_of(element + 1);
    if (batch_.stores_pairs != 0) {
      *reinterpret_cast<Pair<Value>*>(output + channel * row.plane_step + element) = {
          {value_of(level, channel), value_of(next_level, next)}};
      return;
    }
    output[channel * row.plane_step + element] = value_of(level, channel);
    if (element + 1 >= 3 * x_.size) return;
    output[next * row.plane_step + element + 1] = value_of(next_level, next);
  }

  const Block& block_;
  const FusedBatch& batch_;
  const FusedImage& image_;
  const std::uint32_t image_index_;
  FusedShared& shared_;
  const TileAxis x_;
  TileAxis y_;
  const std::uint32_t column_quads_;
  const std::uint32_t stride_;
  std::uint32_t chunk_begin_ = 0;
  std::uint32_t chunk_end_ = 0;
  std::uint32_t parity_ = 0;
};

/// Blocks: [image * max_tiles + tile].
template <typename Value, typename Block>
FEEDRACE_HOST_DEVICE void fused_pass_block(const Block& block, const FusedBatch& batch,
                                           std::uint32_t index, FusedShared& shared) {
  const std::uint32_t image = index / batch.max_tiles;
  const std::uint32_t tile = index % batch.max_tiles;
  if (tile >= at_address<const FusedImage>(batch.images)[image].tile_count) return;
  FusedTile<Block, Value>(block, batch, image, tile, shared).run();
}

}  // namespace feedrace::cuda
