// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/uring_backend.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/storage/test_support.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::storage {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

/// FIFOs that nobody writes to: a whole-file read of one hangs in the kernel, as a file on a dead
/// network mount does, but for ever.
class UringBackendHang : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto probe = probe_uring(); !probe) GTEST_SKIP() << probe.error().message;
    auto made = UringBackend::create({kDepth, WholeFiles::kChain, {}, true, {}});
    if (!made) GTEST_SKIP() << made.error().message;
    backend_ = *std::move(made);
    for (std::size_t i = 0; i < kDepth; ++i) {
      paths_.push_back(folder_ / ("fifo" + std::to_string(i)));
      ASSERT_EQ(mkfifo(paths_.back().c_str(), 0600), 0);
    }
    for (std::size_t i = 0; i < kDepth; ++i) {
      requests_.push_back(
          {nullptr, paths_[i].c_str(), 0, memory_.bytes().subspan(i * 4096, 4096), i});
    }
  }

  static constexpr std::size_t kDepth = 8;
  testing::TempDir folder_;
  HostMemory memory_{kDepth * 4096};
  std::vector<std::string> paths_;
  std::vector<ReadRequest> requests_;
  std::vector<Completion> out_{kDepth};
  std::unique_ptr<UringBackend> backend_;
};

TEST_F(UringBackendHang, CancellationFreesReadsThatHang) {
  for (int round = 0; round < 10; ++round) {
    ASSERT_EQ(backend_->submit(requests_), kDepth);
    EXPECT_EQ(backend_->wait(out_, 0), 0U);
    backend_->cancel_all();
    ASSERT_EQ(backend_->wait(out_, kDepth), kDepth);
    for (const Completion& completion : out_) {
      ASSERT_FALSE(completion.bytes_read);
      EXPECT_EQ(completion.bytes_read.error().code, ErrorCode::kCancelled);
      EXPECT_THAT(completion.bytes_read.error().message,
                  HasSubstr(paths_[completion.user_data] + ": reading 4096 bytes at offset 0"));
    }
  }
}

TEST_F(UringBackendHang, CancellationLeavesLaterReadsAlone) {
  const std::string path = folder_.write("file", known_content(4096));
  ASSERT_EQ(backend_->submit(std::span(requests_).first(4)), 4U);
  backend_->cancel_all();
  const ReadRequest later{nullptr, path.c_str(), 0, requests_[4].destination, 4};
  ASSERT_EQ(backend_->submit({&later, 1}), 1U);
  ASSERT_EQ(backend_->wait(out_, 5), 5U);
  for (const Completion& completion : std::span(out_).first(5)) {
    EXPECT_EQ(static_cast<bool>(completion.bytes_read), completion.user_data == 4);
  }
  EXPECT_TRUE(is_known(later.destination, 0));
}

TEST_F(UringBackendHang, CancellationReachesAReadThatHasGoneOnToItsNextStep) {
  // Both ends open: the chain's open succeeds, and its read waits for bytes.
  const FileDescriptor end(open(paths_[0].c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(end);
  ASSERT_EQ(backend_->submit(std::span(requests_).first(1)), 1U);
  EXPECT_EQ(backend_->wait(out_, 0), 0U);
  backend_->cancel_all();
  ASSERT_EQ(backend_->wait(out_, 1), 1U);
  ASSERT_FALSE(out_[0].bytes_read);
  EXPECT_EQ(out_[0].bytes_read.error().code, ErrorCode::kCancelled);
}

TEST_F(UringBackendHang, DestructionEndsReadsThatHang) {
  ASSERT_EQ(backend_->submit(requests_), kDepth);
  EXPECT_EQ(backend_->wait(out_, 0), 0U);
  backend_.reset();
  EXPECT_EQ(backend_, nullptr);
}

TEST_F(UringBackendHang, InterruptEndsAWaitThatHangs) {
  ASSERT_EQ(backend_->submit(requests_), kDepth);
  for (int round = 0; round < 20; ++round) {
    std::thread interrupter([this] { backend_->interrupt(); });
    EXPECT_EQ(backend_->wait(out_, 1), 0U);
    interrupter.join();
  }
}

TEST(UringBackend, ReadsAreRightWithMemoryThatCannotBeRegistered) {
  if (const auto probe = probe_uring(); !probe) GTEST_SKIP() << probe.error().message;
  if (getuid() != 0) GTEST_SKIP() << "only root may change to a user with a low limit";
  const testing::TempDir folder;
  const std::string path = folder.write("file", known_content(100'000));
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  const auto with_limit = [&](std::size_t limit_kib) {
    return in_child([&]() -> std::string {
      const rlimit limit{limit_kib * 1024, limit_kib * 1024};
      if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0) return "setrlimit failed";
      become_nobody();
      const HostMemory memory(std::size_t{1} << 20);
      auto backend = UringBackend::create({});
      if (!backend) return backend.error().message;
      const auto registered = (*backend)->register_memory(memory.bytes());
      const ReadRequest request{nullptr, path.c_str(), 0, memory.bytes()};
      const auto done = read_one(**backend, request);
      if (!done.bytes_read) return done.bytes_read.error().message;
      if (*done.bytes_read != 100'000 || !is_known(memory.bytes().first(100'000), 0))
        return "wrong";
      return registered ? "registered" : registered.error().message;
    });
  };
  const std::string refused = with_limit(1000);
  EXPECT_THAT(refused,
              StartsWith("uring: 1024 KiB of buffers are not registered "
                         "(io_uring_register: Cannot allocate memory; this user's limit "
                         "of locked memory is 1000 KiB); reads work without, with more CPU "
                         "time: for less, set `ulimit -l "));
  const std::size_t enough = std::stoul(refused.substr(refused.find("ulimit -l ") + 10));
  EXPECT_GE(enough, 1024U);  // The buffers, and the ring where the kernel counts it.
  EXPECT_EQ(with_limit(enough), "registered");
}

TEST(UringBackend, WritesNothingFromKernelThreadsAfterItIsDestroyed) {
  // Files of /proc are read by threads of the kernel: slowly, and whoever else is gone.
  const std::string path = "/proc/kallsyms";
  if (access(path.c_str(), R_OK) != 0) GTEST_SKIP() << path << " can't be read here";
  const HostMemory memory(std::size_t{8} << 20);
  for (int round = 0; round < 20; ++round) {
    auto backend = UringBackend::create({});
    if (!backend) GTEST_SKIP() << backend.error().message;
    const auto file = (*backend)->open(path);
    ASSERT_TRUE(file) << file.error().message;
    std::vector<ReadRequest> requests;
    for (std::size_t i = 0; i < 32; ++i) {
      requests.push_back({file->get(), nullptr, 0, memory.bytes().subspan(i << 18, 1 << 18), i});
    }
    ASSERT_EQ((*backend)->submit(requests), 32U);
    backend->reset();
    std::memset(memory.data(), 0x5A, memory.size_bytes());
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(is_filled_with(memory.bytes(), std::byte{0x5A}));
  }
}

TEST(UringBackend, RegistersMemoryOnlyOnce) {
  auto backend = UringBackend::create({});
  if (!backend) GTEST_SKIP() << backend.error().message;
  const HostMemory memory(8192);
  EXPECT_TRUE((*backend)->register_memory({}));
  EXPECT_TRUE((*backend)->register_memory(memory.bytes()));
  const auto again = (*backend)->register_memory(memory.bytes());
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kUnsupported);
}

TEST(UringRing, FindsTheBufferThatHoldsAllOfADestination) {
  auto ring = UringRing::create(8, {});
  if (!ring) GTEST_SKIP() << ring.error().message;
  const HostMemory memory(5 * 4096);
  const auto registered = memory.bytes().subspan(4096, 3 * 4096);
  EXPECT_EQ((*ring)->buffer_of(registered), -1);
  ASSERT_TRUE((*ring)->register_memory(registered));
  EXPECT_EQ((*ring)->buffer_of(registered), 0);
  EXPECT_EQ((*ring)->buffer_of(registered.last(1)), 0);
  EXPECT_EQ((*ring)->buffer_of(registered.first(0)), -1);
  EXPECT_EQ((*ring)->buffer_of(memory.bytes().subspan(4095, 2)), -1);
  EXPECT_EQ((*ring)->buffer_of(memory.bytes().subspan(4 * 4096 - 1, 2)), -1);
  EXPECT_EQ((*ring)->buffer_of(memory.bytes().last(1)), -1);
}

TEST(UringRing, ADestinationAcrossTwoBuffersIsInNeither) {
  auto ring = UringRing::create(8, {});
  if (!ring) GTEST_SKIP() << ring.error().message;
  const HostMemory memory(3 * 4096);
  ASSERT_TRUE((*ring)->register_memory(memory.bytes(), 4096));
  EXPECT_EQ((*ring)->buffer_of(memory.bytes().first(4096)), 0);
  EXPECT_EQ((*ring)->buffer_of(memory.bytes().subspan(4096, 4096)), 1);
  EXPECT_EQ((*ring)->buffer_of(memory.bytes().last(1)), 2);
  EXPECT_EQ((*ring)->buffer_of(memory.bytes().subspan(4095, 2)), -1);
  EXPECT_EQ((*ring)->buffer_of(memory.bytes()), -1);
}

TEST(UringRefusal, SaysWhatWasTriedAndWhatToDo) {
  EXPECT_EQ(uring_refusal("io_uring_setup", EPERM, 2),
            "io_uring can't be used (io_uring_setup: Operation not permitted); the sysctl "
            "kernel.io_uring_disabled is 2: set it to 0");
  EXPECT_EQ(uring_refusal("io_uring_setup", EPERM, 1),
            "io_uring can't be used (io_uring_setup: Operation not permitted); the sysctl "
            "kernel.io_uring_disabled is 1: set it to 0, or join the group kernel.io_uring_group");
  EXPECT_EQ(uring_refusal("io_uring_setup", EPERM, 0),
            "io_uring can't be used (io_uring_setup: Operation not permitted); the sysctl "
            "kernel.io_uring_disabled is 0, so a seccomp filter forbids it, as the default profile "
            "of a container does: allow io_uring_setup, io_uring_enter and io_uring_register in "
            "the profile");
  EXPECT_THAT(uring_refusal("io_uring_setup", EPERM, std::nullopt),
              HasSubstr("most likely a seccomp filter forbids it"));
  EXPECT_EQ(uring_refusal("io_uring_setup", ENOSYS, std::nullopt),
            "io_uring can't be used (io_uring_setup: Function not implemented); this kernel or "
            "sandbox has no io_uring: use Linux 5.10 or newer");
  EXPECT_THAT(uring_refusal("io_uring_setup", ENOMEM, 0), HasSubstr("ulimit -l"));
  EXPECT_THAT(uring_refusal("io_uring_setup", EMFILE, 0), HasSubstr("ulimit -n"));
}

}  // namespace
}  // namespace feedrace::storage
