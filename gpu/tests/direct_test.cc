// SPDX-License-Identifier: Apache-2.0
// cuFile on a GPU, where the machine lets it start.
#include <fcntl.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/random.h"
#include "feedrace/testing/temp_dir.h"

#include "gpu/places.h"

namespace feedrace::gpu {
namespace {

constexpr std::size_t kPageBytes = 65536;
constexpr std::size_t kFileBytes = 16 * kPageBytes;

std::string noise(std::size_t bytes) {
  SampleRandom random(5, 0, 0, 0);
  std::string made(bytes, '\0');
  for (char& c : made) c = static_cast<char>(random.next() >> 24U);
  return made;
}

/// A file opened for direct reads, and memory of the device; closed in the order that cuFile needs.
class GpuDirect : public ::testing::Test {
 protected:
  ~GpuDirect() override {
    const feedrace_cuda_plugin& table = device_->table();
    if (file_ != nullptr) table.close_file(file_);
    if (is_registered_) table.unregister_memory(direct_, memory_.address());
    if (direct_ != nullptr) table.close_direct(direct_);
    if (descriptor_ >= 0) close(descriptor_);
  }

  /// Why this machine has no cuFile; empty when all is open.
  std::string open_all() {
    feedrace_cuda_error error{};
    const feedrace_cuda_plugin& table = device_->table();
    feedrace_cuda_direct_options options{};
    options.allow_compatible = 1;
    // Tests on the stubs have no /proc/modules and no udev to look at.
    const std::string root = from_environment("FEEDRACE_GPU_TEST_ROOT");
    if (!root.empty()) options.system_root = root.c_str();
    if (table.open_direct(device_->handle(), &options, &direct_, &error) != 0) {
      direct_ = nullptr;
      return error.message;
    }
    descriptor_ = open(path_.c_str(), O_RDONLY | O_DIRECT);
    if (descriptor_ < 0) return "no O_DIRECT on the file system of " + path_;
    if (table.open_file(direct_, descriptor_, &file_, &error) != 0) {
      file_ = nullptr;
      return error.message;
    }
    cuda::require(table.register_memory(direct_, memory_.address(), kFileBytes, &error), error);
    is_registered_ = true;
    return {};
  }

  std::string memory() {
    std::string came(kFileBytes, '\0');
    cuda::Stream stream(device_);
    stream.copy_to_host(came.data(), memory_.address(), came.size());
    finish(device_, stream);
    return came;
  }

  const std::shared_ptr<cuda::Device> device_ = open_device();
  const testing::TempDir dir_{from_environment("FEEDRACE_GPU_TEST_FOLDER")};
  const std::string content_ = noise(kFileBytes);
  const std::string path_ = dir_.write("data", content_);
  const cuda::DeviceMemory memory_{device_, kFileBytes};
  feedrace_cuda_direct* direct_ = nullptr;
  feedrace_cuda_file* file_ = nullptr;
  int descriptor_ = -1;
  bool is_registered_ = false;
};

TEST_F(GpuDirect, ReadsAreTheBytesOfTheFileAndCountedByTheirPath) {
  if (const std::string why = open_all(); !why.empty()) GTEST_SKIP() << why;
  const feedrace_cuda_plugin& table = device_->table();
  feedrace_cuda_error error{};
  for (std::size_t at = 0; at < kFileBytes; at += 4 * kPageBytes) {
    std::size_t came = 0;
    ASSERT_EQ(table.read(file_, memory_.address(), 4 * kPageBytes, at, at, &came, &error), 0)
        << error.message;
    ASSERT_EQ(came, 4 * kPageBytes);
  }
  EXPECT_TRUE(memory() == content_);
  feedrace_cuda_direct_counts counts{};
  ASSERT_EQ(table.direct_counts(direct_, &counts, &error), 0) << error.message;
  EXPECT_EQ(counts.direct_bytes + counts.compatible_bytes + counts.unknown_bytes, kFileBytes);
  RecordProperty("direct_bytes", std::to_string(counts.direct_bytes));
  RecordProperty("compatible_bytes", std::to_string(counts.compatible_bytes));
  RecordProperty("unknown_bytes", std::to_string(counts.unknown_bytes));
}

TEST_F(GpuDirect, ReadsOnAStreamAreTheBytesOfTheFile) {
  if (const std::string why = open_all(); !why.empty()) GTEST_SKIP() << why;
  const feedrace_cuda_plugin& table = device_->table();
  feedrace_cuda_error error{};
  cuda::Stream stream(device_);
  feedrace_cuda_pending_read* pending = nullptr;
  ASSERT_EQ(table.read_async(file_, memory_.address(), kFileBytes, 0, 0, stream.handle(), &pending,
                             &error),
            0)
      << error.message;
  finish(device_, stream);
  std::size_t came = 0;
  ASSERT_EQ(table.finish_read(pending, &came, &error), 0) << error.message;
  EXPECT_EQ(came, kFileBytes);
  EXPECT_TRUE(memory() == content_);
}

TEST_F(GpuDirect, ABatchOfReadsIsTheBytesOfTheFile) {
  if (const std::string why = open_all(); !why.empty()) GTEST_SKIP() << why;
  feedrace_cuda_error error{};
  std::vector<feedrace_cuda_direct_read> reads;
  for (std::size_t at = 0; at < kFileBytes; at += kPageBytes) {
    reads.push_back({file_, memory_.address(), kPageBytes, at, at, 0, -1, 0});
  }
  ASSERT_EQ(device_->table().read_batch(direct_, reads.data(),
                                        static_cast<std::uint32_t>(reads.size()), &error),
            0)
      << error.message;
  EXPECT_TRUE(memory() == content_);
}

}  // namespace
}  // namespace feedrace::gpu
