// SPDX-License-Identifier: Apache-2.0
// Whole loaders: what comes on the GPU against what comes in host memory.
#include "feedrace/loader.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "feedrace/testing/images.h"
#include "feedrace/testing/npy.h"
#include "feedrace/testing/temp_dir.h"

#include "gpu/places.h"

namespace feedrace::gpu {
namespace {

// Pixels that another decoder made; where one decoder made both they are equal.
constexpr double kMeanLevels = 2;

std::string write_pictures(const testing::TempDir& dir, std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    dir.write(fmt::format("set/c{}/{:03}.jpg", i % 3, i),
              testing::make_jpeg(200 + i % 7 * 20, 180 + i % 5 * 16, i));
  }
  return dir / "set";
}

class GpuLoader : public ::testing::Test {
 protected:
  LoaderOptions options(const std::string& device) const {
    LoaderOptions options;
    options.sources = {folder_};
    options.pipeline = Pipeline::recipe("imagenet-train");
    std::get<RandomResizedCrop>(options.pipeline.steps.front()).size = {64, 64};
    options.pipeline.dtype = DType::kUint8;
    options.pipeline.mean = options.pipeline.std = {};
    options.batch_size = 16;
    options.timeout_seconds = 60;
    options.device = device;
    options.cuda_plugin = places().plugin;
    options.cuda_libraries = places().libraries;
    return options;
  }

  /// An epoch on the GPU, batch by batch with the same one in host memory; the mean of what pixels
  /// differ by. Batches are kept, so that slots which are used again too soon show.
  double compare_epoch(LoaderOptions wanted) const {
    const std::string wanted_decoder = wanted.decode_device;
    Loader on_gpu(wanted);
    wanted.device = "cpu";
    wanted.decode_device = "auto";
    Loader on_host(wanted);
    EXPECT_EQ(on_gpu.plan().device.substr(0, 6), "cuda:0");
    const bool is_on_gpu = wanted_decoder == "cuda";
    EXPECT_EQ(on_gpu.plan().decode_device, is_on_gpu ? "cuda:0" : "cpu");
    std::vector<Batch> kept;
    while (auto batch = on_gpu.next()) {
      batch->on_device->hand_over(0);
      kept.push_back(*std::move(batch));
    }
    const DeviceStats counts = on_gpu.stats().device.value_or(DeviceStats{});
    EXPECT_EQ(counts.hardware_decoded + counts.software_decoded > 0, is_on_gpu);
    EXPECT_EQ(counts.host_decoded > 0, !is_on_gpu);
    double sum = 0;
    std::size_t values = 0;
    for (const Batch& batch : kept) {
      const auto wanted_batch = on_host.next();
      if (!wanted_batch) {
        ADD_FAILURE() << "fewer batches in host memory";
        return 256;
      }
      expect_same_samples(batch, *wanted_batch);
      sum += difference(batch, *wanted_batch);
      values += batch.images.size_bytes();
    }
    EXPECT_FALSE(on_host.next());
    EXPECT_EQ(kept.size(), 6U);
    return sum / static_cast<double>(values);
  }

  static void expect_same_samples(const Batch& on_gpu, const Batch& on_host) {
    EXPECT_TRUE(std::equal(on_gpu.indices.begin(), on_gpu.indices.end(), on_host.indices.begin(),
                           on_host.indices.end()));
    EXPECT_TRUE(std::equal(on_gpu.flags.begin(), on_gpu.flags.end(), on_host.flags.begin(),
                           on_host.flags.end()));
    std::vector<std::int64_t> labels(on_gpu.size());
    on_gpu.on_device->read(on_gpu.labels, reinterpret_cast<std::byte*>(labels.data()));
    const auto* wanted = static_cast<const std::int64_t*>(on_host.labels.data);
    EXPECT_TRUE(std::equal(labels.begin(), labels.end(), wanted));
  }

  static double difference(const Batch& on_gpu, const Batch& on_host) {
    std::vector<std::uint8_t> came(on_gpu.images.size_bytes());
    on_gpu.on_device->read(on_gpu.images, reinterpret_cast<std::byte*>(came.data()));
    const auto* wanted = static_cast<const std::uint8_t*>(on_host.images.data);
    if (came.size() != on_host.images.size_bytes()) return 256.0 * static_cast<double>(came.size());
    double sum = 0;
    for (std::size_t i = 0; i < came.size(); ++i) sum += std::abs(int{came[i]} - int{wanted[i]});
    return sum;
  }

  static int largest_difference(const Batch& on_gpu, const Batch& on_host) {
    std::vector<std::uint8_t> came(on_gpu.images.size_bytes());
    on_gpu.on_device->read(on_gpu.images, reinterpret_cast<std::byte*>(came.data()));
    const auto* wanted = static_cast<const std::uint8_t*>(on_host.images.data);
    int largest = 0;
    for (std::size_t i = 0; i < came.size(); ++i) {
      largest = std::max(largest, std::abs(int{came[i]} - int{wanted[i]}));
    }
    return largest;
  }

  const testing::TempDir dir_;
  const std::string folder_ = write_pictures(dir_, 96);
};

TEST_F(GpuLoader, DecodedOnTheCpuBatchesAreThoseOfTheHost) {
  LoaderOptions wanted = options("cuda");
  wanted.decode_device = "cpu";
  EXPECT_EQ(compare_epoch(wanted), 0);
}

TEST_F(GpuLoader, DecodedOnTheGpuBatchesAreNearThoseOfTheHost) {
  for (const double share : {0.0, 0.65, 1.0}) {
    LoaderOptions wanted = options("cuda");
    wanted.decode_device = "cuda";
    wanted.hardware_share = share;
    const double mean = compare_epoch(wanted);
    EXPECT_LE(mean, kMeanLevels) << "share " << share;
    RecordProperty(fmt::format("mean_difference_levels_share_{:.0f}", share * 100),
                   std::to_string(mean));
  }
}

TEST_F(GpuLoader, DecodedPicturesAreWithinALevelOfThoseOfTheHost) {
  constexpr std::uint32_t kCount = 96;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    std::string values(std::size_t{3} * (100 + i) * 90, '\0');
    for (std::size_t v = 0; v < values.size(); ++v) values[v] = static_cast<char>(v * v % 251 + i);
    dir_.write(fmt::format("decoded/c{}/{:03}.npy", i % 3, i),
               testing::npy("|u1", fmt::format("90, {}, 3", 100 + i), values));
  }
  LoaderOptions wanted = options("cuda");
  wanted.sources = {dir_ / "decoded"};
  Loader on_gpu(wanted);
  wanted.device = "cpu";
  Loader on_host(wanted);
  std::size_t batches = 0;
  while (const auto batch = on_gpu.next()) {
    const auto expected = on_host.next();
    ASSERT_TRUE(expected);
    expect_same_samples(*batch, *expected);
    EXPECT_LE(largest_difference(*batch, *expected), 1);
    ++batches;
  }
  EXPECT_EQ(batches, kCount / 16);
  EXPECT_EQ(on_gpu.stats().device->already_decoded, kCount);
  EXPECT_EQ(on_gpu.stats().device->host_decoded, 0U);
}

TEST_F(GpuLoader, EndsInTheMiddleOfAnEpoch) {
  std::vector<Batch> kept;
  for (int round = 0; round < 4; ++round) {
    Loader loader(options("cuda"));
    for (int i = 0; i < round; ++i) kept.push_back(*loader.next());
  }
  for (const Batch& batch : kept) batch.on_device->wait();
  EXPECT_EQ(kept.size(), 6U);
}

}  // namespace
}  // namespace feedrace::gpu
