// SPDX-License-Identifier: Apache-2.0
#pragma once

// Samples of the fused pass and what the reference makes of them, on whatever device.

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "feedrace/cuda/plugin_abi.h"
#include "feedrace/ops/random_pictures.h"
#include "feedrace/ops/reference.h"

namespace feedrace::cuda {

using ops::ImageSize;
using ops::reference::Image;

constexpr std::size_t kStagingBytes = 256;  // Of an image.

/// A picture of a batch and what is done with it. Its memory ends with its last pixel, so that the
/// address sanitizer sees a read outside of it.
struct Sample {
  Image image;
  std::size_t offset_bytes = 0;   ///< Of the picture in its memory.
  std::size_t padding_bytes = 0;  ///< Behind each row.
  feedrace_cuda_geometry geometry{};
  std::vector<std::uint8_t> memory;

  std::size_t row_bytes() const { return std::size_t{image.width_px} * 3 + padding_bytes; }
  void place() {
    const std::size_t used = std::size_t{image.width_px} * 3;
    memory.assign(offset_bytes + row_bytes() * (image.height_px - std::size_t{1}) + used, 0xEE);
    for (std::size_t y = 0; y < image.height_px; ++y) {
      std::memcpy(&memory[offset_bytes + y * row_bytes()], &image.rgb[y * used], used);
    }
  }
  feedrace_cuda_picture picture() const {
    return {reinterpret_cast<std::uint64_t>(memory.data()) + offset_bytes,
            static_cast<std::int64_t>(row_bytes()), image.width_px, image.height_px};
  }
};

inline Image upside_down(const Image& image) {
  Image out(image.width_px, image.height_px);
  const std::size_t row_bytes = std::size_t{image.width_px} * 3;
  for (std::size_t y = 0; y < image.height_px; ++y) {
    std::memcpy(&out.rgb[(image.height_px - 1 - y) * row_bytes], &image.rgb[y * row_bytes],
                row_bytes);
  }
  return out;
}

inline std::vector<std::byte> expected(const Sample& sample, ImageSize size,
                                       const ops::TensorFormat& format) {
  const feedrace_cuda_geometry& g = sample.geometry;
  const Image box = ops::reference::crop(sample.image.view(),
                                         {g.box_x_px, g.box_y_px, g.box_width_px, g.box_height_px});
  const ops::ResizeWindow resize = {{g.box_width_px, g.box_height_px},
                                    g.full_width_px,
                                    g.full_height_px,
                                    g.window_x_px,
                                    g.window_y_px,
                                    size};
  Image image = ops::reference::resize_window(box.view(), resize);
  if (g.mirror_x != 0) image = ops::reference::flip(image.view());
  if (g.mirror_y != 0) image = upside_down(image);
  return ops::reference::to_tensor(image.view(), format);
}

inline feedrace_cuda_output output_of(ImageSize size, const ops::TensorFormat& format) {
  feedrace_cuda_output output{};
  output.width_px = size.width_px;
  output.height_px = size.height_px;
  output.dtype = format.dtype == DType::kUint8     ? FEEDRACE_CUDA_UINT8
                 : format.dtype == DType::kFloat16 ? FEEDRACE_CUDA_FLOAT16
                                                   : FEEDRACE_CUDA_FLOAT32;
  output.is_hwc = format.layout == Layout::kHwc ? 1 : 0;
  for (std::size_t c = 0; c < 3; ++c) {
    output.mean[c] = format.mean.empty() ? 0.0F : format.mean[c];
    output.std[c] = format.std.empty() ? 1.0F : format.std[c];
  }
  return output;
}

inline std::string describe(const Sample& sample, ImageSize size, const ops::TensorFormat& format) {
  const feedrace_cuda_geometry& g = sample.geometry;
  return std::to_string(g.box_width_px) + "x" + std::to_string(g.box_height_px) + " of " +
         std::to_string(sample.image.width_px) + "x" + std::to_string(sample.image.height_px) +
         " to " + std::to_string(g.full_width_px) + "x" + std::to_string(g.full_height_px) +
         ", window " + std::to_string(size.width_px) + "x" + std::to_string(size.height_px) +
         " at " + std::to_string(g.window_x_px) + "," + std::to_string(g.window_y_px) +
         ", mirror " + std::to_string(g.mirror_x) + std::to_string(g.mirror_y) + ", " +
         to_string(format.dtype) + " " + to_string(format.layout);
}

/// The whole box, resized to the whole output.
inline Sample whole(Image image, ImageSize size) {
  Sample sample;
  sample.geometry.box_width_px = image.width_px;
  sample.geometry.box_height_px = image.height_px;
  sample.geometry.full_width_px = size.width_px;
  sample.geometry.full_height_px = size.height_px;
  sample.image = std::move(image);
  return sample;
}

inline const std::vector<ops::TensorFormat>& all_formats() {
  static const std::vector<ops::TensorFormat> formats = [] {
    std::vector<ops::TensorFormat> made;
    for (const DType dtype : {DType::kUint8, DType::kFloat16, DType::kFloat32}) {
      for (const Layout layout : {Layout::kChw, Layout::kHwc}) {
        made.push_back(ops::imagenet(dtype, layout));
      }
    }
    return made;
  }();
  return formats;
}

}  // namespace feedrace::cuda
