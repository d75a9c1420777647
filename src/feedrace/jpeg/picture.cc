// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/picture.h"

#include <algorithm>
#include <cstring>

namespace feedrace::jpeg {
namespace {

/// In front of a row of samples: the one that the first is mixed with, and room for whole vectors.
constexpr std::size_t kMarginSamples = 32;
constexpr std::size_t kBlockPx = 8;

constexpr const char* kBadCodes =
    "corrupt entropy-coded data: codes or restart markers that no encoder writes";
constexpr const char* kOddEnd =
    "corrupt entropy-coded data: it does not end with the last block of the picture";
constexpr const char* kWildLevels =
    "corrupt entropy-coded data: levels that no picture of 8 bits has";

template <typename T>
void grow(std::vector<T>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

template <typename T>
T divide_up(T a, T b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

/// libjpeg repeats the samples of very narrow components instead of mixing neighbours.
bool is_mixed_across(const SamplePlane& plane) { return plane.shrink_x == 2 && plane.width > 2; }

/// As libjpeg (jdsample.c): rows are mixed where columns are as they are or mixed too.
bool is_mixed_down(const SamplePlane& plane) {
  return plane.shrink_y == 2 && (plane.shrink_x == 1 || is_mixed_across(plane));
}

}  // namespace

std::unique_ptr<PictureDecoder> PictureDecoder::make() {
  const auto entropy = entropy_kernels();
  const auto pixels = pixel_kernels();
  if (entropy.empty() || pixels.empty()) return nullptr;
  return std::make_unique<PictureDecoder>(*entropy.back(), *pixels.back());
}

std::uint64_t PictureDecoder::memory_bytes(const Frame& frame, const Window& window) noexcept {
  const std::uint64_t mcu_count =
      std::min(frame.mcu_columns(), window.width_px / frame.mcu_width_px() + 3);
  std::uint64_t blocks = 0;
  for (const Component& component : std::span(frame.components).first(frame.component_count)) {
    blocks += std::uint64_t{component.across} * component.down;
  }
  // Coefficients of one row of MCUs, samples of two, and rows that are upsampled.
  constexpr std::uint64_t kBlockBytes = 64 * (sizeof(std::int16_t) + 2);
  return mcu_count * (blocks * kBlockBytes + std::uint64_t{2} * frame.mcu_width_px()) +
         (std::uint64_t{64} << 10);
}

bool PictureDecoder::begin(std::span<const std::byte> encoded, const Frame& frame,
                           const Window& window, const CropIndex* crops) {
  frame_ = frame;
  window_ = window;
  rows_done_ = 0;
  next_mcu_row_ = 0;
  damage_ = nullptr;
  crops_ = crops;
  if (!scan_.start(encoded, frame_, tables_)) return false;

  context_rows_ = 0;
  std::uint32_t context_columns = 0;
  for (std::uint32_t i = 0; i < frame.component_count; ++i) {
    const Component& component = frame.components[i];
    SamplePlane& plane = planes_[i];
    plane.across = component.across;
    plane.down = component.down;
    plane.shrink_x = frame.most_across / component.across;
    plane.shrink_y = frame.most_down / component.down;
    plane.width = divide_up<std::size_t>(frame.width_px, plane.shrink_x);
    plane.height = divide_up<std::size_t>(frame.height_px, plane.shrink_y);
    if (is_mixed_across(plane)) context_columns = 2;
    if (is_mixed_down(plane)) context_rows_ = 1;
  }
  const std::uint32_t left = window.x_px - std::min(window.x_px, context_columns);
  const std::uint32_t right =
      std::min(window.x_px + window.width_px + context_columns, frame.width_px);
  first_mcu_ = left / frame.mcu_width_px();
  end_mcu_ = divide_up(right, frame.mcu_width_px());
  const std::uint32_t top = window.y_px - std::min(window.y_px, context_rows_);
  const std::uint32_t bottom =
      std::min(window.y_px + window.height_px + context_rows_, frame.height_px);
  first_kept_row_ = top / frame.mcu_height_px();
  last_mcu_row_ = (bottom - 1) / frame.mcu_height_px();
  for (std::uint32_t i = 0; i < frame.component_count; ++i) {
    place_plane(planes_[i], frame.components[i]);
  }
  return true;
}

void PictureDecoder::place_plane(SamplePlane& plane, const Component& component) {
  const std::size_t mcu_count = end_mcu_ - first_mcu_;
  plane.first_block = first_mcu_ * plane.across;
  plane.block_count = mcu_count * plane.across;
  plane.coefficient_step = (plane.block_count + 1) * kBlockSize;
  grow(plane.coefficients, plane.down * plane.coefficient_step);
  grow(plane.last, plane.down * plane.block_count);
  plane.row_bytes = kMarginSamples + plane.block_count * kBlockPx + kSpareSamples;
  grow(plane.samples, 2 * plane.down * kBlockPx * plane.row_bytes);
  std::vector<std::uint8_t>& wide = wide_[static_cast<std::size_t>(&plane - planes_.data())];
  if (plane.shrink_x * plane.shrink_y > 1) grow(wide, window_.width_px + 8 + 2 * kSpareSamples);
  const auto& quant = frame_.quant[component.quant_table];
  std::copy(quant.begin(), quant.end(), plane.quant.begin());
}

/// Tells the scan where the blocks of the next MCU go.
void PictureDecoder::aim_blocks() {
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < frame_.component_count; ++i) {
    SamplePlane& plane = planes_[i];
    for (std::uint32_t y = 0; y < plane.down; ++y) {
      for (std::uint32_t x = 0; x < plane.across; ++x) {
        McuBlock& block = scan_.blocks()[next++];
        block.coefficients = &plane.coefficients[y * plane.coefficient_step + x * kBlockSize];
        block.last = &plane.last[y * plane.block_count + x];
        block.step = plane.across;
      }
    }
  }
}

bool PictureDecoder::decode_until(std::uint32_t mcu_row) {
  next_mcu_row_ = std::max(next_mcu_row_, first_kept_row_);
  while (next_mcu_row_ <= mcu_row) {
    if (!decode_mcu_row() || !transform_mcu_row()) return false;
    ++next_mcu_row_;
  }
  return true;
}

bool PictureDecoder::stop(const char* damage) noexcept {
  damage_ = damage;
  return false;
}

bool PictureDecoder::decode_mcu_row() {
  aim_blocks();
  if (!go_to(next_mcu_row_, first_mcu_) || !scan_.decode(end_mcu_ - first_mcu_)) {
    return stop(kBadCodes);
  }
  // Whoever made the places saw that the scan is sound to its end.
  if (crops_ != nullptr) return true;
  if (next_mcu_row_ + 1 < frame_.mcu_rows()) return true;
  // Where the picture ends, its end is looked at.
  if (!scan_.walk(frame_.mcu_columns() - end_mcu_)) return stop(kBadCodes);
  return scan_.is_finished() || stop(kOddEnd);
}

/// Walks to an MCU that lies ahead, from the last place in front of it if there is one ahead.
bool PictureDecoder::go_to(std::uint32_t mcu_row, std::uint32_t mcu_column) {
  const std::size_t mcu = std::size_t{mcu_row} * frame_.mcu_columns() + mcu_column;
  if (crops_ != nullptr) {
    const ScanPlace& place = crops_->find(mcu_row, mcu_column);
    if (place.mcu > scan_.next_mcu()) scan_.start_at(place);
  }
  return scan_.skip_to(mcu);
}

std::uint8_t* PictureDecoder::sample_row(SamplePlane& plane, std::int64_t row) noexcept {
  const auto last = static_cast<std::int64_t>(plane.height) - 1;
  const auto inside = static_cast<std::size_t>(std::clamp<std::int64_t>(row, 0, last));
  const std::size_t kept_rows = 2 * plane.down * kBlockPx;
  return &plane.samples[inside % kept_rows * plane.row_bytes + kMarginSamples];
}

bool PictureDecoder::transform_mcu_row() {
  for (SamplePlane& plane : std::span(planes_).first(frame_.component_count)) {
    for (std::uint32_t y = 0; y < plane.down; ++y) {
      const std::size_t block_row = next_mcu_row_ % 2 * plane.down + y;
      std::uint8_t* samples =
          &plane.samples[block_row * kBlockPx * plane.row_bytes] + kMarginSamples;
      if (!pixels_->inverse_dct(&plane.coefficients[y * plane.coefficient_step],
                                &plane.last[y * plane.block_count], plane.block_count,
                                plane.quant.data(), samples, plane.row_bytes)) {
        return stop(kWildLevels);
      }
      if (!is_mixed_across(plane)) continue;
      // At the picture's edges a sample is its own neighbour.
      const std::size_t first = plane.first_block * kBlockPx;
      const std::size_t end = plane.width - first;
      for (std::size_t row = 0; row < kBlockPx; ++row, samples += plane.row_bytes) {
        if (first == 0) samples[-1] = samples[0];
        if (end <= plane.block_count * kBlockPx) samples[end] = samples[end - 1];
      }
    }
  }
  return true;
}

/// Row `y` of the picture of one component, at full width, from the window's first pixel on.
const std::uint8_t* PictureDecoder::full_row(std::size_t component, std::uint32_t y) {
  SamplePlane& plane = planes_[component];
  const std::size_t row = y / plane.shrink_y;
  const std::size_t skipped_px = window_.x_px - plane.first_block * kBlockPx * plane.shrink_x;
  const std::uint8_t* near = sample_row(plane, static_cast<std::int64_t>(row));
  if (plane.shrink_x == 1 && plane.shrink_y == 1) return near + skipped_px;

  const std::size_t first = skipped_px / plane.shrink_x;
  const std::size_t end = divide_up(skipped_px + window_.width_px, plane.shrink_x);
  const std::size_t count = end - first;
  std::vector<std::uint8_t>& wide = wide_[component];
  const bool is_lower = y % plane.shrink_y == 1;
  if (is_mixed_down(plane)) {
    const std::uint8_t* far =
        sample_row(plane, static_cast<std::int64_t>(row) + (is_lower ? 1 : -1));
    if (plane.shrink_x == 1) {
      pixels_->upsample_down(near + first, far + first, count, is_lower ? 2 : 1, wide.data());
    } else {
      pixels_->upsample_both(near + first, far + first, count, wide.data());
    }
  } else if (is_mixed_across(plane)) {
    pixels_->upsample_across(near + first, count, wide.data());
  } else {
    for (std::size_t i = 0; i < count * plane.shrink_x; ++i) {
      wide[i] = near[first + i / plane.shrink_x];
    }
  }
  return wide.data() + skipped_px % plane.shrink_x;
}

void PictureDecoder::write_row(std::uint32_t y, std::uint8_t* rgb) {
  const std::uint8_t* first = full_row(0, y);
  if (frame_.colour == ColourModel::kGrey) {
    pixels_->planes_to_rgb(first, first, first, window_.width_px, rgb);
    return;
  }
  const std::uint8_t* second = full_row(1, y);
  const std::uint8_t* third = full_row(2, y);
  const auto convert =
      frame_.colour == ColourModel::kYcc ? pixels_->ycc_to_rgb : pixels_->planes_to_rgb;
  convert(first, second, third, window_.width_px, rgb);
}

std::uint32_t PictureDecoder::read_rows(std::uint8_t* rgb, std::size_t row_bytes,
                                        std::uint32_t row_count) {
  for (std::uint32_t i = 0; i < row_count; ++i, ++rows_done_) {
    const std::uint32_t y = window_.y_px + rows_done_;
    const std::uint32_t needed = std::min(y + context_rows_, frame_.height_px - 1);
    if (damage_ != nullptr || !decode_until(needed / frame_.mcu_height_px())) return i;
    write_row(y, rgb + i * row_bytes);
  }
  return row_count;
}

std::size_t PictureDecoder::scratch_bytes() const noexcept {
  std::size_t bytes = sizeof(*this) + tables_.memory_bytes();
  for (const SamplePlane& plane : planes_) {
    bytes += plane.coefficients.capacity() * sizeof(std::int16_t) + plane.last.capacity() +
             plane.samples.capacity();
  }
  for (const auto& row : wide_) bytes += row.capacity();
  return bytes;
}

}  // namespace feedrace::jpeg
