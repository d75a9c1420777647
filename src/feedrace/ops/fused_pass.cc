// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/fused_pass.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "feedrace/ops/level_math.h"

namespace feedrace::ops {
namespace {

constexpr std::uint32_t kQuadRows = 4;
constexpr LevelMath kLevelsAsTheyAre{};

template <typename Buffer>
void grow(Buffer& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

}  // namespace

FusedPass::FusedPass(const TensorFormat& format, const Kernels& kernels)
    : kernels_(&kernels), dtype_(format.dtype), layout_(format.layout) {
  check(format);
  table_ = make_level_table(format);
  math_ = find_level_math(format, table_, kernels);
}

void FusedPass::begin(const FusedPlan& plan, void* tensor) {
  const ResizeWindow& resize = plan.resize;
  tensor_ = tensor;
  output_ = resize.output;
  rows_taken_ = 0;
  quads_taken_ = 0;
  rows_emitted_ = 0;
  make_axis_weights(resize.crop.width_px, resize.full_width_px, resize.x_px, output_.width_px,
                    columns_);
  make_axis_weights(resize.crop.height_px, resize.full_height_px, resize.y_px, output_.height_px,
                    rows_);
  source_ = {columns_.first, rows_.first, columns_.count, rows_.count};
  kernels_->pack_columns(columns_, plan.flip, column_table_);
  make_room();
}

void FusedPass::make_room() {
  plane_bytes_ = quad_plane_bytes(output_.width_px);
  // An output's taps begin anywhere in a quad, and it is emitted as soon as its last quad is there.
  ring_quads_ = (std::size_t{rows_.max_taps} + 2) / kQuadRows + 1;
  grow(ring_, ring_quads_ * plane_bytes_ * 3);
  grow(sum_quads_, ring_quads_);
  grow(sum_weights_, ring_quads_ * kQuadRows);
  staged_row_bytes_ = std::size_t{source_.width_px} * 3 + column_table_.row_padding_bytes;
  grow(staging_, staged_row_bytes_ * kQuadRows);
  if (!math_.exact) grow(levels_, std::size_t{output_.width_px} * 3);
}

std::uint32_t FusedPass::rows_wanted() const noexcept {
  return std::min(kBandRows, source_.height_px - rows_taken_);
}

void FusedPass::push_rows(const std::uint8_t* rgb, std::size_t row_bytes, std::uint32_t row_count) {
  const bool stage_all = column_table_.row_padding_bytes > 0;
  while (row_count > 0) {
    if (!stage_all && rows_taken_ % kQuadRows == 0 && row_count >= kQuadRows) {
      take_quad({rgb, rgb + row_bytes, rgb + 2 * row_bytes, rgb + 3 * row_bytes});
      rows_taken_ += kQuadRows;
      rgb += kQuadRows * row_bytes;
      row_count -= kQuadRows;
    } else {
      stage_row(rgb);
      rgb += row_bytes;
      --row_count;
    }
  }
}

void FusedPass::stage_row(const std::uint8_t* row) {
  const std::uint32_t slot = rows_taken_ % kQuadRows;
  std::memcpy(&staging_[slot * staged_row_bytes_], row, std::size_t{source_.width_px} * 3);
  ++rows_taken_;
  const bool last = rows_taken_ == source_.height_px;
  if (slot != kQuadRows - 1 && !last) return;
  // Behind the last row any bytes will do: their weights are 0.
  std::array<const std::uint8_t*, 4> rows;
  for (std::uint32_t i = 0; i < kQuadRows; ++i) {
    rows[i] = &staging_[std::min(i, slot) * staged_row_bytes_];
  }
  take_quad(rows);
}

std::uint8_t* FusedPass::quad(std::uint32_t index) noexcept {
  return &ring_[index % ring_quads_ * plane_bytes_ * 3];
}

void FusedPass::take_quad(const std::array<const std::uint8_t*, 4>& rows) {
  kernels_->resample_columns(column_table_, rows.data(), std::size_t{source_.width_px} * 3,
                             quad(quads_taken_));
  ++quads_taken_;
  while (rows_emitted_ < output_.height_px && last_quad(rows_emitted_) < quads_taken_) {
    emit_row(rows_emitted_);
    ++rows_emitted_;
  }
}

std::uint32_t FusedPass::first_quad(std::uint32_t y) const noexcept {
  return (rows_.start[y] - rows_.first) / kQuadRows;
}

std::uint32_t FusedPass::last_quad(std::uint32_t y) const noexcept {
  const std::uint32_t begin = rows_.start[y] - rows_.first;
  return (begin + std::max(rows_.taps[y], 1U) - 1) / kQuadRows;
}

void FusedPass::emit_row(std::uint32_t y) {
  const std::uint32_t first = first_quad(y);
  const std::uint32_t count = last_quad(y) - first + 1;
  std::fill_n(sum_weights_.begin(), std::size_t{count} * kQuadRows, 0);
  std::copy_n(rows_.weights.begin() + static_cast<std::ptrdiff_t>(y * rows_.stride), rows_.taps[y],
              sum_weights_.begin() + (rows_.start[y] - rows_.first) % kQuadRows);
  for (std::uint32_t i = 0; i < count; ++i) sum_quads_[i] = quad(first + i);
  const QuadSum sum = {sum_quads_.data(), sum_weights_.data(), count, plane_bytes_};
  const RowOutput row = row_of(tensor_, output_, y, dtype_, layout_);
  if (math_.exact) {
    kernels_->resample_row(sum, math_, row);
    return;
  }
  RowOutput levels;
  levels.layout = Layout::kHwc;
  levels.width = output_.width_px;
  levels.planes[0] = levels_.data();
  kernels_->resample_row(sum, kLevelsAsTheyAre, levels);
  look_up_row(levels_.data(), {1, 3}, table_, dtype_, row);
}

std::size_t FusedPass::tensor_bytes(ImageSize size) const noexcept {
  return size_of(dtype_) * 3 * size.width_px * size.height_px;
}

std::size_t FusedPass::scratch_bytes() const noexcept {
  return sizeof(*this) + columns_.memory_bytes() + rows_.memory_bytes() +
         column_table_.memory_bytes() + ring_.capacity() + staging_.capacity() +
         levels_.capacity() + sum_quads_.capacity() * sizeof(sum_quads_[0]) +
         sum_weights_.capacity() * sizeof(sum_weights_[0]);
}

}  // namespace feedrace::ops
