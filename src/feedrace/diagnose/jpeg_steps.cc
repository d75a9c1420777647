// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/jpeg_steps.h"

#include <time.h>

#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "feedrace/jpeg/zigzag.h"

namespace feedrace::diagnose {
namespace {

constexpr std::size_t kBlockPx = 8;

template <typename T>
void grow(std::vector<T>& buffer, std::size_t size) {
  if (buffer.size() < size) buffer.resize(size);
}

}  // namespace

std::uint64_t thread_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

std::unique_ptr<JpegSteps> JpegSteps::make() {
  const auto entropy = jpeg::entropy_kernels();
  const auto pixels = jpeg::pixel_kernels();
  if (entropy.empty() || pixels.empty()) return nullptr;
  return std::make_unique<JpegSteps>(*entropy.back(), *pixels.back());
}

const char* JpegSteps::unusual(std::span<const std::byte> encoded) {
  return jpeg::read_frame(encoded, frame_);
}

bool JpegSteps::begin(std::span<const std::byte> encoded) {
  if (jpeg::read_frame(encoded, frame_) != nullptr) return false;
  if (!scan_.start(encoded, frame_, tables_)) return false;
  for (std::size_t i = 0; i < frame_.component_count; ++i) place(i);
  return true;
}

void JpegSteps::place(std::size_t component) {
  const jpeg::Component& stored = frame_.components[component];
  Plane& plane = planes_[component];
  plane.across = stored.across;
  plane.down = stored.down;
  plane.block_count = std::size_t{frame_.mcu_columns()} * stored.across;
  plane.step = (plane.block_count + 1) * jpeg::kBlockSize;
  grow(plane.coefficients, plane.down * plane.step);
  grow(plane.last, plane.down * plane.block_count);
  grow(plane.samples, kBlockPx * (plane.block_count * kBlockPx + jpeg::kSpareSamples));
  const auto& quant = frame_.quant[stored.quant_table];
  std::copy(quant.begin(), quant.end(), plane.quant.begin());
}

bool JpegSteps::decode_row() {
  std::size_t next = 0;
  for (Plane& plane : std::span(planes_).first(frame_.component_count)) {
    for (std::uint32_t y = 0; y < plane.down; ++y) {
      for (std::uint32_t x = 0; x < plane.across; ++x) {
        jpeg::McuBlock& block = scan_.blocks()[next++];
        block.coefficients = &plane.coefficients[y * plane.step + x * jpeg::kBlockSize];
        block.last = &plane.last[y * plane.block_count + x];
        block.step = plane.across;
      }
    }
  }
  return scan_.decode(frame_.mcu_columns());
}

bool JpegSteps::transform_row() {
  for (Plane& plane : std::span(planes_).first(frame_.component_count)) {
    const std::size_t row_bytes = plane.block_count * kBlockPx + jpeg::kSpareSamples;
    for (std::uint32_t y = 0; y < plane.down; ++y) {
      const bool done = pixels_->inverse_dct(&plane.coefficients[y * plane.step],
                                             &plane.last[y * plane.block_count], plane.block_count,
                                             plane.quant.data(), plane.samples.data(), row_bytes);
      if (!done) return false;
    }
  }
  return true;
}

bool JpegSteps::decode(std::span<const std::byte> encoded) {
  if (!begin(encoded)) return false;
  for (std::uint32_t row = 0; row < frame_.mcu_rows(); ++row) {
    if (!decode_row()) return false;
  }
  return scan_.is_finished();
}

bool JpegSteps::transform(std::span<const std::byte> encoded) {
  if (!begin(encoded)) return false;
  for (std::uint32_t row = 0; row < frame_.mcu_rows(); ++row) {
    if (!decode_row() || !transform_row()) return false;
  }
  return scan_.is_finished();
}

struct JpegSteps::Comparison {
  JpegSteps* ours = nullptr;
  const char* problem = nullptr;
  std::uint32_t mcu_row = 0;
};

/// Called within libjpeg's reach: nothing here has a destructor.
void JpegSteps::compare_rows(void* context, jpeg_decompress_struct& cinfo,
                             jvirt_barray_ptr* arrays) {
  Comparison& comparison = *static_cast<Comparison*>(context);
  JpegSteps& ours = *comparison.ours;
  for (std::uint32_t row = 0; row < ours.frame_.mcu_rows(); ++row) {
    comparison.mcu_row = row;
    if (!ours.decode_row()) {
      comparison.problem = "ours calls it damaged, libjpeg-turbo does not";
      return;
    }
    for (std::uint32_t i = 0; i < ours.frame_.component_count; ++i) {
      const Plane& plane = ours.planes_[i];
      const jpeg_component_info& stored = cinfo.comp_info[i];
      for (std::uint32_t y = 0; y < plane.down; ++y) {
        const JDIMENSION block_row = row * plane.down + y;
        if (block_row >= stored.height_in_blocks) break;
        JBLOCKARRAY theirs = (*cinfo.mem->access_virt_barray)(
            reinterpret_cast<j_common_ptr>(&cinfo), arrays[i], block_row, 1, FALSE);
        for (JDIMENSION x = 0; x < stored.width_in_blocks; ++x) {
          const std::int16_t* own = &plane.coefficients[y * plane.step + x * jpeg::kBlockSize];
          for (std::size_t k = 0; k < jpeg::kBlockSize; ++k) {
            if (own[k] != theirs[0][x][jpeg::kNaturalOrder[k]]) {
              comparison.problem = "a coefficient differs";
              return;
            }
          }
        }
      }
    }
  }
}

Result<void> JpegSteps::compare(std::span<const std::byte> encoded, PlainLibjpeg& libjpeg) {
  if (!begin(encoded)) return Failure{ErrorCode::kCorruptData, "ours does not take its header"};
  Comparison comparison;
  comparison.ours = this;
  if (auto read = libjpeg.read_coefficients(encoded, &compare_rows, &comparison); !read) {
    return read;
  }
  if (comparison.problem == nullptr) return {};
  return Failure{ErrorCode::kCorruptData,
                 fmt::format("{} in row {} of its MCUs", comparison.problem, comparison.mcu_row)};
}

}  // namespace feedrace::diagnose
