// SPDX-License-Identifier: Apache-2.0
#pragma once

// What tests of the fused pass share: batches of pictures, run through the table on the stubs.

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/cuda/test_stubs.h"
#include "feedrace/ops/random_pictures.h"
#include "feedrace/ops/reference.h"

namespace feedrace::cuda {

using ops::ImageSize;
using ops::reference::Image;

constexpr std::size_t kGuardBytes = 64;
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

class FusedPassOnStubs : public OnStubs {
 protected:
  FusedPassOnStubs() : device_(device()), stream_(std::make_unique<Stream>(device_)) {}
  ~FusedPassOnStubs() override {
    stream_.reset();
    device_.reset();
  }

  /// What a call needs beside its arguments.
  struct Call {
    std::vector<feedrace_cuda_picture> pictures;
    std::vector<feedrace_cuda_geometry> geometries;
    feedrace_cuda_output output{};
    DeviceMemory scratch;
    HostMemory staging;
    PinnedRange pinned;
    std::size_t scratch_bytes = 0;
    std::size_t staging_bytes = 0;
    feedrace_cuda_error error{};
  };

  Call prepare(const std::vector<Sample>& samples, const feedrace_cuda_output& output) {
    Call call;
    for (const Sample& sample : samples) {
      call.pictures.push_back(sample.picture());
      call.geometries.push_back(sample.geometry);
    }
    call.output = output;
    require(
        device_->table().fused_pass_scratch(device_->handle(), call.geometries.data(), count(call),
                                            &output, &call.scratch_bytes, &call.error),
        call.error);
    call.scratch = DeviceMemory(device_, call.scratch_bytes);
    call.staging_bytes = samples.size() * kStagingBytes;
    call.staging = HostMemory(call.staging_bytes);
    call.pinned = PinnedRange(device_, call.staging.data(), call.staging.size_bytes());
    return call;
  }
  static std::uint32_t count(const Call& call) {
    return static_cast<std::uint32_t>(call.geometries.size());
  }
  int run(Call& call) {
    return device_->table().fused_pass(
        device_->handle(), call.pictures.data(), call.geometries.data(), count(call), &call.output,
        call.scratch.address(), call.scratch_bytes, call.staging.data(), call.staging_bytes,
        stream_->handle(), &call.error);
  }
  std::string failure(Call& call, int status) {
    EXPECT_EQ(run(call), status);
    return call.error.message;
  }

  /// The images that the pass makes, the bytes behind them being untouched.
  std::vector<std::byte> images_of(const std::vector<Sample>& samples, ImageSize size,
                                   const ops::TensorFormat& format) {
    const std::size_t bytes =
        samples.size() * 3 * size.width_px * size.height_px * size_of(format.dtype);
    const DeviceMemory memory(device_, bytes + 2 * kGuardBytes);
    std::vector<std::byte> all(bytes + 2 * kGuardBytes, std::byte{0x5A});
    stream_->copy_to_device(memory.address(), all.data(), all.size());
    feedrace_cuda_output output = output_of(size, format);
    output.address = memory.address() + kGuardBytes;
    Call call = prepare(samples, output);
    require(run(call), call.error);
    stream_->copy_to_host(all.data(), memory.address(), all.size());
    Event done(device_);
    done.record(stream_->handle());
    done.wait();
    const auto is_guard = [](std::byte b) { return b == std::byte{0x5A}; };
    EXPECT_TRUE(std::all_of(all.begin(), all.begin() + kGuardBytes, is_guard));
    EXPECT_TRUE(std::all_of(all.end() - kGuardBytes, all.end(), is_guard));
    return {all.begin() + kGuardBytes, all.end() - kGuardBytes};
  }

  void expect_reference(std::vector<Sample> samples, ImageSize size,
                        const ops::TensorFormat& format) {
    for (Sample& sample : samples) sample.place();
    const std::vector<std::byte> got = images_of(samples, size, format);
    const std::size_t image_bytes = got.size() / samples.size();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::vector<std::byte> wanted = expected(samples[i], size, format);
      ASSERT_EQ(wanted.size(), image_bytes);
      EXPECT_EQ(std::memcmp(wanted.data(), &got[i * image_bytes], image_bytes), 0)
          << "image " << i << ": " << describe(samples[i], size, format);
    }
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Stream> stream_;
};

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
