// SPDX-License-Identifier: Apache-2.0
// The fused pass on a GPU against the reference on the CPU: within one level of 255.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/cuda/test_pass_samples.h"
#include "feedrace/ops/half.h"
#include "feedrace/random.h"

#include "gpu/places.h"

namespace feedrace::gpu {
namespace {

using cuda::DeviceMemory;
using cuda::Sample;
using ops::ImageSize;

/// How far values are from those of the reference, in levels.
struct Difference {
  double largest = 0;
  std::size_t unequal = 0;
  std::size_t count = 0;

  void add(double levels) {
    largest = std::isfinite(levels) ? std::max(largest, levels) : INFINITY;
    unequal += levels == 0 ? 0U : 1U;
    ++count;
  }
};

double value_at(const std::byte* bytes, std::size_t i, DType dtype) {
  if (dtype == DType::kUint8) return std::to_integer<int>(bytes[i]);
  if (dtype == DType::kFloat32) {
    float value = 0;
    std::memcpy(&value, bytes + i * sizeof(value), sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, bytes + i * sizeof(bits), sizeof(bits));
  return ops::float_from_half(bits);
}

class GpuFusedPass : public ::testing::Test {
 protected:
  /// The images, as the GPU makes them.
  std::vector<std::byte> run(std::vector<Sample>& samples, ImageSize size,
                             const ops::TensorFormat& format) {
    cuda::Stream stream(device_);
    std::vector<DeviceMemory> pictures;
    std::vector<feedrace_cuda_picture> described;
    std::vector<feedrace_cuda_geometry> geometries;
    for (Sample& sample : samples) {
      sample.place();
      pictures.emplace_back(device_, sample.memory.size());
      stream.copy_to_device(pictures.back().address(), sample.memory.data(), sample.memory.size());
      described.push_back(sample.picture());
      described.back().address = pictures.back().address() + sample.offset_bytes;
      geometries.push_back(sample.geometry);
    }
    const auto count = static_cast<std::uint32_t>(samples.size());
    feedrace_cuda_output output = cuda::output_of(size, format);
    const std::size_t bytes = count * size_of(format.dtype) * 3 * size.width_px * size.height_px;
    const DeviceMemory images(device_, bytes);
    output.address = images.address();
    std::size_t scratch_bytes = 0;
    feedrace_cuda_error error{};
    cuda::require(device_->table().fused_pass_scratch(device_->handle(), geometries.data(), count,
                                                      &output, &scratch_bytes, &error),
                  error);
    const DeviceMemory scratch(device_, scratch_bytes);
    const HostMemory staging(count * cuda::kStagingBytes);
    const cuda::PinnedRange pinned(device_, staging.data(), staging.size_bytes());
    cuda::require(
        device_->table().fused_pass(device_->handle(), described.data(), geometries.data(), count,
                                    &output, scratch.address(), scratch_bytes, staging.data(),
                                    staging.size_bytes(), stream.handle(), &error),
        error);
    std::vector<std::byte> came(bytes);
    stream.copy_to_host(came.data(), images.address(), bytes);
    finish(device_, stream);
    return came;
  }

  void compare(std::vector<Sample> samples, ImageSize size, const ops::TensorFormat& format) {
    const std::vector<std::byte> came = run(samples, size, format);
    const std::size_t image_bytes = came.size() / samples.size();
    const std::size_t plane = std::size_t{size.width_px} * size.height_px;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const std::vector<std::byte> wanted = cuda::expected(samples[i], size, format);
      ASSERT_EQ(wanted.size(), image_bytes);
      Difference here;
      for (std::size_t v = 0; v < plane * 3; ++v) {
        const std::size_t channel = format.layout == Layout::kHwc ? v % 3 : v / plane;
        const double a_level =
            format.dtype == DType::kUint8 ? 1 : 1 / (255.0 * std::abs(format.std[channel]));
        const double apart = value_at(&came[i * image_bytes], v, format.dtype) -
                             value_at(wanted.data(), v, format.dtype);
        here.add(std::abs(apart) / a_level);
      }
      // A half has 11 bits: of a value of 2.6, at the end of ImageNet's range, 0.15 of a level.
      EXPECT_LE(here.largest, 1.15) << cuda::describe(samples[i], size, format);
      all_.largest = std::max(all_.largest, here.largest);
      all_.unequal += here.unequal;
      all_.count += here.count;
    }
  }

  ~GpuFusedPass() override {
    RecordProperty("largest_difference_levels", std::to_string(all_.largest));
    RecordProperty("unequal_values", std::to_string(all_.unequal));
    RecordProperty("compared_values", std::to_string(all_.count));
  }

  const std::shared_ptr<cuda::Device> device_ = open_device();
  Difference all_;
};

std::uint32_t below(SampleRandom& random, std::uint64_t bound) {
  return static_cast<std::uint32_t>(random.below(bound));
}

/// From 1 to `most`, small ones as often as large ones.
std::uint32_t any_size(SampleRandom& random, double most) {
  return static_cast<std::uint32_t>(std::exp(random.uniform(0, std::log(most + 0.99))));
}

Sample any_sample(SampleRandom& random, ImageSize size) {
  const std::uint32_t width = any_size(random, 900);
  const std::uint32_t height = any_size(random, 700);
  Sample sample;
  sample.image = below(random, 2) == 0 ? ops::noise(width, height, random.next())
                                       : ops::extremes(width, height, random.next());
  sample.offset_bytes = below(random, 17);
  sample.padding_bytes = below(random, 2) * below(random, 40);
  feedrace_cuda_geometry& g = sample.geometry;
  g.box_width_px = 1 + below(random, width);
  g.box_height_px = 1 + below(random, height);
  g.box_x_px = below(random, width - g.box_width_px + 1);
  g.box_y_px = below(random, height - g.box_height_px + 1);
  g.full_width_px = size.width_px;
  g.full_height_px = size.height_px;
  if (below(random, 3) == 0) {
    g.full_width_px = any_size(random, 600);
    g.full_height_px = any_size(random, 600);
    g.window_x_px = static_cast<std::int64_t>(random.uniform(-40, 400));
    g.window_y_px = static_cast<std::int64_t>(random.uniform(-40, 400));
  }
  g.mirror_x = static_cast<std::uint8_t>(below(random, 2));
  g.mirror_y = static_cast<std::uint8_t>(below(random, 4) == 0);
  return sample;
}

TEST_F(GpuFusedPass, RandomGeometriesAreWithinALevelOfTheReference) {
  for (std::uint64_t round = 0; round < 60; ++round) {
    for (std::size_t format = 0; format < cuda::all_formats().size(); ++format) {
      if (round % 2 != format % 2) continue;  // Each of them thirty times.
      SampleRandom random(11, 0, round, static_cast<std::uint32_t>(format));
      const ImageSize size = {any_size(random, 260), any_size(random, 260)};
      std::vector<Sample> samples;
      for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
        samples.push_back(any_sample(random, size));
      }
      compare(std::move(samples), size, cuda::all_formats()[format]);
    }
  }
}

TEST_F(GpuFusedPass, LongAxesAreWithinALevelOfTheReference) {
  struct Case {
    ImageSize source;
    ImageSize size;
  };
  const Case cases[] = {{{1, 1}, {1, 1}},        {{1, 1}, {70, 40}},    {{4000, 9}, {1, 1}},
                        {{9, 4000}, {1, 1}},     {{4000, 8}, {64, 2}},  {{3, 2}, {4000, 5}},
                        {{2, 3}, {5, 4000}},     {{1300, 700}, {7, 5}}, {{4000, 1000}, {224, 224}},
                        {{500, 375}, {224, 224}}};
  for (const Case& c : cases) {
    const auto index = static_cast<std::size_t>(&c - cases);
    for (const std::size_t format : {index % 6, (index + 3) % 6}) {
      compare({cuda::whole(ops::noise(c.source.width_px, c.source.height_px, 1), c.size)}, c.size,
              cuda::all_formats()[format]);
    }
  }
}

TEST_F(GpuFusedPass, ABatchOfATrainingStepIsWithinALevelOfTheReference) {
  std::vector<Sample> samples;
  for (std::uint64_t i = 0; i < 64; ++i) {
    SampleRandom random(12, 0, i, 0);
    samples.push_back(any_sample(random, {224, 224}));
  }
  compare(std::move(samples), {224, 224}, ops::imagenet(DType::kFloat16, Layout::kChw));
}

}  // namespace
}  // namespace feedrace::gpu
