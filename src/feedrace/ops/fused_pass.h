// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "feedrace/ops/convert.h"
#include "feedrace/ops/kernels.h"
#include "feedrace/ops/random_resized_crop.h"
#include "feedrace/ops/resample.h"
#include "feedrace/tensor.h"

namespace feedrace::ops {

/// What is done with one picture; the tensor's format is the pass's own.
struct FusedPlan {
  ResizeWindow resize;
  bool flip = false;  ///< Left to right, after resizing.
};

/// Resize, flip, normalise and convert in one pass. Rows go in as they are decoded; each row of the
/// output is written once, straight to the batch, as soon as the rows that it needs have come. No
/// picture lies in between: a ring holds the few resized rows that are still needed.
///
/// The result equals Pillow's `crop(...).resize(..., BILINEAR)`, then flip, then the format's level
/// table, bit for bit, whatever instructions the machine has.
///
/// One instance serves one thread, picture after picture, and keeps its memory between them:
///
///     pass.begin(plan, slot);
///     const CropBox part = pass.source();  // of the crop: decode only this
///     while (const std::uint32_t rows = pass.rows_wanted()) {
///       decoder.read_rows(band, row_bytes, rows);
///       pass.push_rows(band, row_bytes, rows);
///     }
class FusedPass {
 public:
  /// Rows that `rows_wanted()` asks for at a time: a band of an ordinary crop stays in the first
  /// level cache's neighbourhood (16 rows x 320 px x 3 = 15 KiB) and matches two rows of JPEG
  /// blocks.
  static constexpr std::uint32_t kBandRows = 16;

  /// Throws Error kInvalidArgument, as `check(format)` does.
  explicit FusedPass(const TensorFormat& format, const Kernels& kernels = best_kernels());

  /// Begins a picture; one that was begun before is dropped. `tensor` has room for
  /// `tensor_bytes(plan.resize.output)` and must stay until the last row is pushed.
  /// Throws only std::bad_alloc.
  void begin(const FusedPlan& plan, void* tensor);

  /// The part of the crop that the output depends on, relative to the crop. Valid after `begin`.
  const CropBox& source() const noexcept { return source_; }

  /// Rows to push next: `kBandRows`, less at the end, 0 when the picture is finished.
  std::uint32_t rows_wanted() const noexcept;

  /// Takes the next `row_count` rows of `source()`, top to bottom: `source().width_px * 3` bytes
  /// each, `row_bytes` apart. Reads nothing behind a row's last pixel, keeps no pointer. Any count
  /// up to the rows that are left; multiples of 4 save a copy.
  void push_rows(const std::uint8_t* rgb, std::size_t row_bytes, std::uint32_t row_count);

  /// Bytes of a picture of this size in the batch.
  std::size_t tensor_bytes(ImageSize size) const noexcept;

  /// Bytes that the pass holds now. Grows with the widest and most reduced picture seen; about
  /// 50 KiB for crops of ordinary photos to 224 x 224.
  std::size_t scratch_bytes() const noexcept;

 private:
  void make_room();
  void stage_row(const std::uint8_t* row);
  void take_quad(const std::array<const std::uint8_t*, 4>& rows);
  void emit_row(std::uint32_t y);
  std::uint8_t* quad(std::uint32_t index) noexcept;
  std::uint32_t first_quad(std::uint32_t y) const noexcept;
  std::uint32_t last_quad(std::uint32_t y) const noexcept;

  const Kernels* kernels_;
  DType dtype_;
  Layout layout_;
  LevelTable table_;
  LevelMath math_;

  // Of the picture in hand.
  void* tensor_ = nullptr;
  ImageSize output_;
  CropBox source_;
  AxisWeights columns_;
  AxisWeights rows_;
  ColumnTable column_table_;
  std::uint32_t rows_taken_ = 0;  ///< Of `source_`, staged ones included.
  std::uint32_t quads_taken_ = 0;
  std::uint32_t rows_emitted_ = 0;

  // Scratch; grows only.
  std::size_t plane_bytes_ = 0;
  std::size_t ring_quads_ = 0;
  VectorBuffer<std::uint8_t> ring_;
  std::size_t staged_row_bytes_ = 0;
  VectorBuffer<std::uint8_t> staging_;
  VectorBuffer<std::uint8_t> levels_;
  std::vector<const std::uint8_t*> sum_quads_;
  std::vector<std::int32_t> sum_weights_;
};

}  // namespace feedrace::ops
