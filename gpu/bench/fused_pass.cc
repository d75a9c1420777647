// SPDX-License-Identifier: Apache-2.0
// The fused pass: images a second, and what share of the memory's bandwidth that is.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/cuda/test_pass_samples.h"
#include "feedrace/ops/half.h"
#include "feedrace/random.h"

#include "gpu/bench/report.h"

namespace feedrace::gpu {
namespace {

using cuda::DeviceMemory;
using cuda::Sample;
using ops::ImageSize;

constexpr ImageSize kSize = {224, 224};

/// A crop of an ImageNet-like picture as training draws it: 8 % to all of the area.
Sample draw(std::uint64_t i) {
  SampleRandom random(21, 0, i, 0);
  Sample sample;
  sample.image = ops::noise(500, 375, i % 8);
  const double area = random.uniform(0.08, 1) * 500 * 375;
  const double ratio = std::exp(random.uniform(std::log(0.75), std::log(4.0 / 3)));
  feedrace_cuda_geometry& g = sample.geometry;
  g.box_width_px = std::min(500U, static_cast<std::uint32_t>(std::sqrt(area * ratio)));
  g.box_height_px = std::min(375U, static_cast<std::uint32_t>(std::sqrt(area / ratio)));
  g.box_x_px = static_cast<std::uint32_t>(random.below(501 - g.box_width_px));
  g.box_y_px = static_cast<std::uint32_t>(random.below(376 - g.box_height_px));
  g.full_width_px = kSize.width_px;
  g.full_height_px = kSize.height_px;
  g.mirror_x = static_cast<std::uint8_t>(random.below(2));
  return sample;
}

/// A batch, with all that a call of the pass needs.
struct PassBatch {
  PassBatch(const std::shared_ptr<cuda::Device>& on, std::size_t count)
      : device(on), stream(on), format(ops::imagenet(DType::kFloat16, Layout::kChw)) {
    for (std::size_t i = 0; i < count; ++i) {
      samples.push_back(draw(i));
      Sample& sample = samples.back();
      sample.place();
      pictures.emplace_back(device, sample.memory.size());
      stream.copy_to_device(pictures.back().address(), sample.memory.data(), sample.memory.size());
      described.push_back(sample.picture());
      described.back().address = pictures.back().address();
      geometries.push_back(sample.geometry);
    }
    output = cuda::output_of(kSize, format);
    images = DeviceMemory(device, count * image_bytes());
    output.address = images.address();
    feedrace_cuda_error error{};
    cuda::require(device->table().fused_pass_scratch(device->handle(), geometries.data(),
                                                     static_cast<std::uint32_t>(count), &output,
                                                     &scratch_bytes, &error),
                  error);
    scratch = DeviceMemory(device, scratch_bytes);
    staging = HostMemory(count * cuda::kStagingBytes);
    pinned = cuda::PinnedRange(device, staging.data(), staging.size_bytes());
    finish(device, stream);
  }

  std::size_t image_bytes() const {
    return std::size_t{3} * kSize.width_px * kSize.height_px * size_of(format.dtype);
  }
  /// Each byte of the boxes once, and each byte of the images.
  double bytes_that_must_move() const {
    double bytes = static_cast<double>(samples.size() * image_bytes());
    for (const feedrace_cuda_geometry& g : geometries) {
      bytes += 3.0 * g.box_width_px * g.box_height_px;
    }
    return bytes;
  }
  void run() {
    feedrace_cuda_error error{};
    cuda::require(device->table().fused_pass(device->handle(), described.data(), geometries.data(),
                                             static_cast<std::uint32_t>(samples.size()), &output,
                                             scratch.address(), scratch_bytes, staging.data(),
                                             staging.size_bytes(), stream.handle(), &error),
                  error);
  }
  /// The largest difference from the reference, in levels, of the first few images.
  double largest_difference() {
    std::vector<std::byte> came(samples.size() * image_bytes());
    stream.copy_to_host(came.data(), images.address(), came.size());
    finish(device, stream);
    double largest = 0;
    for (std::size_t i = 0; i < std::min<std::size_t>(samples.size(), 16); ++i) {
      const std::vector<std::byte> wanted = cuda::expected(samples[i], kSize, format);
      const std::size_t plane = std::size_t{kSize.width_px} * kSize.height_px;
      for (std::size_t v = 0; v < 3 * plane; ++v) {
        const double apart = half_at(&came[i * image_bytes()], v) - half_at(wanted.data(), v);
        largest = std::max(largest, std::abs(apart) * 255 * double{format.std[v / plane]});
      }
    }
    return largest;
  }
  static double half_at(const std::byte* bytes, std::size_t i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes + 2 * i, sizeof(bits));
    return ops::float_from_half(bits);
  }

  std::shared_ptr<cuda::Device> device;
  cuda::Stream stream;
  ops::TensorFormat format;
  std::vector<Sample> samples;
  std::vector<DeviceMemory> pictures;
  std::vector<feedrace_cuda_picture> described;
  std::vector<feedrace_cuda_geometry> geometries;
  feedrace_cuda_output output{};
  DeviceMemory images;
  DeviceMemory scratch;
  std::size_t scratch_bytes = 0;
  HostMemory staging;
  cuda::PinnedRange pinned;
};

}  // namespace

void bench_fused_pass(const BenchOptions& options) {
  const auto device = open_device();
  const double bandwidth_gb_s = device_bandwidth_gb_s(device, options.is_quick);
  PassBatch batch(device, options.is_quick ? 8 : options.batch_size);
  batch.run();
  const double largest = batch.largest_difference();
  print_check("fused.output", largest <= 1.15,
              fmt::format("largest difference from the reference {:.2f} levels of 255", largest));
  std::vector<double> images_s;
  std::vector<double> share;
  for (int run = 0; run < (options.is_quick ? 3 : 50); ++run) {
    const double seconds = device_seconds(device, batch.stream, [&] { batch.run(); });
    images_s.push_back(static_cast<double>(batch.samples.size()) / seconds);
    share.push_back(100 * batch.bytes_that_must_move() / seconds / 1e9 / bandwidth_gb_s);
  }
  print_figure("fused.images", "images/s", images_s);
  print_figure("fused.share_of_memory_bandwidth", "%", share);
}

}  // namespace feedrace::gpu
