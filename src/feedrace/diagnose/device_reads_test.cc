// SPDX-License-Identifier: Apache-2.0
// The ways into a GPU's memory, on the stub libraries: what they count, that the bytes that came
// are those of the file, and what is said where one fails.
#include "feedrace/diagnose/device_reads.h"

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/cuda/test_stubs.h"
#include "feedrace/diagnose/io_paths.h"
#include "feedrace/storage/backends.h"
#include "feedrace/testing/faulty_backend.h"
#include "feedrace/testing/null_backend.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::diagnose {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr std::size_t kBlockBytes = 4096;
constexpr std::uint64_t kBlocks = 100;

class DeviceReads : public cuda::OnStubs {
 protected:
  DeviceReads() {
    std::string content;
    for (std::size_t i = 0; i < kBlocks * kBlockBytes; ++i) {
      content += static_cast<char>(i * 31 + i / kBlockBytes);
    }
    job_.files = {{folder_.write("a.bin", content), kBlocks}};
    job_.block_bytes = kBlockBytes;
    job_.queue_depth = 8;
    job_.thread_count = 3;
    system_.write("proc/modules", "");
    std::filesystem::create_directories(system_.path() / "run/udev");
    std::filesystem::create_directories(system_.path() / "dev");
    root_ = system_.path().string();
    target_.device = device();
    target_.name = "cuda:0";
    target_.system_root = root_.c_str();
  }
  ~DeviceReads() override {
    target_.device.reset();
    unsetenv("FEEDRACE_STUB_CUFILE_PATH");
    unsetenv("FEEDRACE_STUB_CUFILE_VERSION");
  }

  Result<std::unique_ptr<ReadPath>> make(DeviceRead how) const {
    if (how == DeviceRead::kPageable) return make_pageable_reads(target_, job_);
    if (how == DeviceRead::kCuFile) return make_cufile_reads(target_, job_);
    return make_pinned_reads(storage::simple_backend(job_.queue_depth), target_, job_);
  }
  IoRow measure(const std::string& name) const {
    for (const IoPath& path : io_paths(target_)) {
      if (path.name == name) return measure_row(path, job_, /*is_cold=*/false, /*checks=*/true);
    }
    ADD_FAILURE() << name << " is no row";
    return {};
  }
  static RunLimits once(std::uint64_t count = kBlocks) { return {60, count}; }

  testing::TempDir folder_;
  testing::TempDir system_;
  std::string root_;
  IoJob job_;
  DeviceTarget target_;
};

struct Way {
  DeviceRead how;
  std::uint64_t cpu_copies;
  std::uint64_t device_copies;
};

class EveryWay : public DeviceReads, public ::testing::WithParamInterface<Way> {};

TEST_P(EveryWay, CountsBlocksAndCopiesAndHasTheBytesOfTheFile) {
  const auto [how, cpu_copies, device_copies] = GetParam();
  feedrace_stub_set_delay_us(200);  // A slot that is used again too early would show.
  const auto reads = make(how);
  ASSERT_TRUE(reads) << reads.error().message;
  const BlockOrder order(job_);
  const auto right = (*reads)->check(order, kBlocks);
  EXPECT_TRUE(right) << right.error().message;
  for (const std::uint64_t count : {std::uint64_t{1}, kBlocks, 3 * kBlocks + 1}) {
    const auto counts = (*reads)->read(order, once(count));
    ASSERT_TRUE(counts) << counts.error().message;
    EXPECT_EQ(counts->reads, count);
    EXPECT_EQ(counts->bytes, count * kBlockBytes);
    EXPECT_EQ(counts->copied_bytes, cpu_copies * counts->bytes);
    EXPECT_EQ(counts->device_copied_bytes, device_copies * counts->bytes);
    EXPECT_EQ(counts->latency.count(), count);
    EXPECT_TRUE((*reads)->check_what_is_left());
  }
}

TEST_P(EveryWay, EndsWhenTheTimeIsOver) {
  const auto reads = make(GetParam().how);
  ASSERT_TRUE(reads) << reads.error().message;
  const auto counts = (*reads)->read(BlockOrder(job_), {0, ~std::uint64_t{0}});
  ASSERT_TRUE(counts);
  EXPECT_LE(counts->reads, job_.queue_depth);
}

TEST_P(EveryWay, FindsBytesThatChangedOnTheDevice) {
  const auto reads = make(GetParam().how);
  ASSERT_TRUE(reads) << reads.error().message;
  ASSERT_TRUE((*reads)->read(BlockOrder(job_), once()));
  folder_.write("a.bin", std::string(kBlocks * kBlockBytes, 'x'));
  const auto left = (*reads)->check_what_is_left();
  ASSERT_FALSE(left);
  EXPECT_EQ(left.error().code, ErrorCode::kCorruptData);
}

TEST_P(EveryWay, SaysThatThereIsNoMemory) {
  feedrace_stub_set_memory(1024);
  const auto reads = make(GetParam().how);
  ASSERT_FALSE(reads);
  EXPECT_EQ(reads.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(reads.error().message, HasSubstr("memory"));
}

INSTANTIATE_TEST_SUITE_P(All, EveryWay,
                         ::testing::Values(Way{DeviceRead::kPageable, 2, 1},
                                           Way{DeviceRead::kPinned, 1, 1},
                                           Way{DeviceRead::kCuFile, 0, 0}),
                         [](const auto& test) {
                           return test.param.how == DeviceRead::kPageable ? "Pageable"
                                  : test.param.how == DeviceRead::kPinned ? "Pinned"
                                                                          : "CuFile";
                         });

class EveryCopy : public DeviceReads, public ::testing::WithParamInterface<DeviceRead> {};

TEST_P(EveryCopy, FailsWithTheCallThatFailed) {
  for (const char* call : {"cuMemcpyHtoDAsync_v2", "cuEventRecord"}) {
    const auto reads = make(GetParam());
    ASSERT_TRUE(reads) << reads.error().message;
    feedrace_stub_fail(call, 5, 719);
    const auto counts = (*reads)->read(BlockOrder(job_), once());
    ASSERT_FALSE(counts) << call;
    EXPECT_THAT(counts.error().message, HasSubstr("719")) << call;
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryCopy,
                         ::testing::Values(DeviceRead::kPageable, DeviceRead::kPinned));

TEST_F(DeviceReads, MemoryThatCannotBePinnedIsNoRow) {
  feedrace_stub_fail("cuMemHostRegister_v2", 1, 2);
  const auto reads = make(DeviceRead::kPinned);
  ASSERT_FALSE(reads);
  EXPECT_EQ(reads.error().code, ErrorCode::kUnsupported);
}

TEST_F(DeviceReads, AReadThatFailsEndsTheRow) {
  testing::FaultPlan plan;
  plan.error_share = 0.1;
  auto faulty =
      std::make_unique<testing::FaultyBackend>(storage::simple_backend(job_.queue_depth), plan);
  const auto reads = make_pinned_reads(std::move(faulty), target_, job_);
  ASSERT_TRUE(reads) << reads.error().message;
  const auto counts = (*reads)->read(BlockOrder(job_), once());
  ASSERT_FALSE(counts);
  EXPECT_EQ(counts.error().code, ErrorCode::kIo);
}

TEST_F(DeviceReads, BytesOfAnotherFileAreFound) {
  auto null = std::make_unique<testing::NullBackend>(kBlocks * kBlockBytes, job_.queue_depth);
  const auto reads = make_pinned_reads(std::move(null), target_, job_);
  ASSERT_TRUE(reads) << reads.error().message;
  const auto right = (*reads)->check(BlockOrder(job_), kBlocks);
  ASSERT_FALSE(right);
  EXPECT_EQ(right.error().code, ErrorCode::kCorruptData);
}

TEST_F(DeviceReads, CuFileIsNamedByTheWayThatItTook) {
  EXPECT_EQ(measure("cufile").way, "direct");
  setenv("FEEDRACE_STUB_CUFILE_PATH", "compat", 1);
  const IoRow row = measure("cufile");
  EXPECT_EQ(row.reason, "");
  EXPECT_EQ(row.way, "compat");
  EXPECT_EQ(figures_of(row).copies_per_byte, 1);
  EXPECT_EQ(figures_of(row).device_copies_per_byte, 1);
  setenv("FEEDRACE_STUB_CUFILE_PATH", "silent", 1);
  EXPECT_EQ(measure("cufile").way, "unknown");
}

TEST_F(DeviceReads, CuFileIsRefusedWithTheFirstReason) {
  std::filesystem::remove_all(system_.path() / "proc");
  const IoRow row = measure("cufile");
  EXPECT_EQ(row.code, ErrorCode::kUnsupported);
  EXPECT_THAT(row.reason, HasSubstr("/proc/modules"));
}

TEST_F(DeviceReads, CuFileNamesTheFileThatItCannotRead) {
  feedrace_stub_fail("cuFileRead", 0, 5);
  const IoRow row = measure("cufile");
  EXPECT_EQ(row.code, ErrorCode::kIo);
  EXPECT_THAT(row.reason, AllOf(HasSubstr("a.bin"), HasSubstr("cuFileRead")));
  feedrace_stub_reset();
  feedrace_stub_fail("cuFileHandleRegister", 0, 5027);
  EXPECT_THAT(measure("cufile").reason, AllOf(HasSubstr("a.bin"), HasSubstr("5027")));
}

TEST_F(DeviceReads, CuFileWantsWholePages) {
  job_.block_bytes = 512;
  job_.files[0].block_count = 8 * kBlocks;
  const auto reads = make(DeviceRead::kCuFile);
  ASSERT_FALSE(reads);
  EXPECT_THAT(reads.error().message, HasSubstr("--block-size 4096"));
}

TEST_F(DeviceReads, AreRowsWithAReasonWhereThereIsNoGpu) {
  target_ = {};
  target_.missing = "no GPU can be used: none is there";
  for (const char* name : {"gpu pageable", "gpu buffered", "gpu direct", "gpu uring", "cufile"}) {
    EXPECT_EQ(measure(name).reason, target_.missing) << name;
    EXPECT_EQ(measure(name).code, ErrorCode::kUnsupported) << name;
  }
}

}  // namespace
}  // namespace feedrace::diagnose
