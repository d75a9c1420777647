// SPDX-License-Identifier: Apache-2.0
// Memory, copies, streams and events of a GPU, through the plug-in's table.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/cuda/batch_upload.h"
#include "feedrace/random.h"

#include "gpu/places.h"

namespace feedrace::gpu {
namespace {

using cuda::Device;
using cuda::DeviceMemory;
using cuda::Event;
using cuda::PinnedRange;
using cuda::Stream;

std::vector<std::byte> noise(std::size_t bytes, std::uint64_t seed) {
  SampleRandom random(seed, 0, 0, 0);
  std::vector<std::byte> made(bytes);
  for (std::byte& byte : made) byte = static_cast<std::byte>(random.next() >> 24U);
  return made;
}

/// To the device, to another place there, and back: each on the heels of the one before.
std::vector<std::byte> there_and_back(const std::shared_ptr<Device>& device,
                                      const std::byte* source, std::size_t bytes) {
  const DeviceMemory first(device, bytes);
  const DeviceMemory second(device, bytes);
  std::vector<std::byte> came(bytes);
  Stream stream(device);
  stream.copy_to_device(first.address(), source, bytes);
  feedrace_cuda_error error{};
  cuda::require(device->table().copy_on_device(device->handle(), second.address(), first.address(),
                                               bytes, stream.handle(), &error),
                error);
  stream.copy_to_host(came.data(), second.address(), bytes);
  finish(device, stream);
  return came;
}

TEST(GpuMemory, BytesComeBackAsTheyWere) {
  const auto device = open_device();
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{3}, std::size_t{4095},
                                  std::size_t{65536}, (std::size_t{16} << 20U) + 7}) {
    const std::vector<std::byte> sent = noise(bytes, bytes);
    EXPECT_TRUE(there_and_back(device, sent.data(), bytes) == sent) << bytes << " bytes, pageable";
    const HostMemory memory(bytes);
    const PinnedRange pinned(device, memory.data(), memory.size_bytes());
    std::copy(sent.begin(), sent.end(), memory.data());
    EXPECT_TRUE(there_and_back(device, memory.data(), bytes) == sent) << bytes << " bytes, pinned";
  }
}

TEST(GpuMemory, IsAlignedForCuFileAndCounted) {
  const auto device = open_device();
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  feedrace_cuda_error error{};
  ASSERT_EQ(device->table().memory_facts(device->handle(), &free_bytes, &total_bytes, &error), 0)
      << error.message;
  EXPECT_GT(free_bytes, 0U);
  EXPECT_GE(total_bytes, free_bytes);
  for (const std::size_t bytes : {1U, 70'000U, 1'000'000U}) {
    EXPECT_EQ(DeviceMemory(device, bytes).address() % 65536, 0U);
  }
}

TEST(GpuMemory, MoreThanTheDeviceHasIsAnErrorWithTheSizes) {
  const auto device = open_device();
  std::uint64_t free_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t address = 0;
  feedrace_cuda_error error{};
  ASSERT_EQ(device->table().memory_facts(device->handle(), &free_bytes, &total_bytes, &error), 0);
  ASSERT_EQ(device->table().allocate(device->handle(), total_bytes * 2, &address, &error),
            FEEDRACE_CUDA_NO_MEMORY);
  EXPECT_THAT(error.message, ::testing::HasSubstr(std::to_string(total_bytes * 2)));
  const std::vector<std::byte> sent = noise(1000, 1);
  EXPECT_TRUE(there_and_back(device, sent.data(), sent.size()) == sent) << "after the failure";
}

TEST(GpuMemory, EveryDeviceIsOfUse) {
  const auto plugin = open_plugin();
  const auto facts = nlohmann::json::parse(*plugin->facts());
  ASSERT_FALSE(facts["devices"].empty());
  for (const auto& one : facts["devices"]) {
    const int ordinal = one["ordinal"].get<int>();
    const auto opened = Device::open(plugin, ordinal);
    ASSERT_TRUE(opened) << opened.error().message;
    const std::vector<std::byte> sent = noise(100'000, 2);
    EXPECT_TRUE(there_and_back(*opened, sent.data(), sent.size()) == sent) << "GPU " << ordinal;
  }
}

TEST(GpuStreams, AStreamThatWaitsForAnEventSeesWhatIsBeforeIt) {
  const auto device = open_device();
  constexpr std::size_t kBytes = std::size_t{8} << 20U;
  const HostMemory source(kBytes);
  const PinnedRange pinned_source(device, source.data(), kBytes);
  const HostMemory came(kBytes);
  const PinnedRange pinned_came(device, came.data(), kBytes);
  const DeviceMemory memory(device, kBytes);
  Stream writer(device);
  Stream reader(device);
  for (int round = 0; round < 20; ++round) {
    std::fill_n(source.data(), kBytes, static_cast<std::byte>(round));
    writer.copy_to_device(memory.address(), source.data(), kBytes);
    Event written(device);
    written.record(writer.handle());
    reader.wait(written);
    reader.copy_to_host(came.data(), memory.address(), kBytes);
    finish(device, reader);
    EXPECT_TRUE(written.is_done());
    ASSERT_TRUE(std::equal(came.data(), came.data() + kBytes, source.data())) << "round " << round;
  }
}

TEST(GpuStreams, TimeBetweenEventsIsANumber) {
  const auto device = open_device();
  constexpr std::size_t kBytes = std::size_t{8} << 20U;
  const std::vector<std::byte> source(kBytes);
  const DeviceMemory memory(device, kBytes);
  Stream stream(device);
  Event begin(device, true);
  Event end(device, true);
  begin.record(stream.handle());
  stream.copy_to_device(memory.address(), source.data(), kBytes);
  end.record(stream.handle());
  end.wait();
  float milliseconds = -1;
  feedrace_cuda_error error{};
  ASSERT_EQ(device->table().elapsed_ms(device->handle(), begin.handle(), end.handle(),
                                       &milliseconds, &error),
            0)
      << error.message;
  EXPECT_TRUE(std::isfinite(milliseconds));
  EXPECT_GE(milliseconds, 0);
}

TEST(GpuUpload, EveryBatchIsWholeWhileSlotsGoRound) {
  const auto device = open_device();
  constexpr std::size_t kBytes = (std::size_t{1} << 20U) + 64;
  constexpr std::size_t kBatches = 20;
  const auto upload = cuda::BatchUpload::create(device, 3, 8);
  Stream consumer(device);
  for (std::uint64_t batch = 0; batch < kBatches; ++batch) {
    const auto source = std::make_shared<std::vector<std::byte>>(noise(kBytes, batch));
    const cuda::Piece pieces[] = {{source->data(), kBytes - 64, 64},
                                  {source->data() + kBytes - 64, 64, 0}};
    const auto slot = upload->acquire(kBytes, {});
    upload->fill(*slot, pieces, source);
    slot->hand_over(consumer.handle());
    std::vector<std::byte> came(kBytes);
    consumer.copy_to_host(came.data(), slot->address(), kBytes);
    finish(device, consumer);
    std::rotate(came.begin(), came.begin() + 64, came.end());
    ASSERT_TRUE(came == *source) << "batch " << batch;
  }
  upload->finish();
  EXPECT_EQ(upload->copied_bytes(), kBatches * kBytes);
}

}  // namespace
}  // namespace feedrace::gpu
