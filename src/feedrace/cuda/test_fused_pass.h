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
#include "feedrace/cuda/test_pass_samples.h"
#include "feedrace/cuda/test_stubs.h"

namespace feedrace::cuda {

constexpr std::size_t kGuardBytes = 64;

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

}  // namespace feedrace::cuda
