// SPDX-License-Identifier: Apache-2.0
#pragma once

// The back ends that the contract is checked for, and the fixture of its tests.

#include <cstddef>
#include <memory>
#include <ostream>
#include <span>
#include <string>

#include <gtest/gtest.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/storage/test_support.h"
#include "feedrace/storage/thread_backend.h"
#include "feedrace/storage/uring_backend.h"
#include "feedrace/testing/faulty_backend.h"
#include "feedrace/testing/null_backend.h"
#include "feedrace/testing/slow_backend.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::storage {

inline constexpr std::size_t kFileBytes = 1'000'003;  // No multiple of a page or a sector.

struct Variant {
  std::string name;
  std::unique_ptr<Backend> (*make)(std::size_t queue_depth);  // Null when it can't be had here.
  bool registers = false;

  friend void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }
};

template <Access kAccess>
std::unique_ptr<Backend> make_threads(std::size_t queue_depth) {
  return std::make_unique<ThreadBackend>(queue_depth, 0, AccessOptions{kAccess, false, nullptr});
}

template <WholeFiles kWholeFiles, bool kDefer, Access kAccess = Access::kPageCache>
std::unique_ptr<Backend> make_uring(std::size_t queue_depth) {
  UringOptions options;
  options.queue_depth = queue_depth;
  options.whole_files = kWholeFiles;
  options.ring.defer_taskrun = kDefer;
  options.access.wanted = kAccess;
  auto made = UringBackend::create(options);
  if (!made) return nullptr;
  EXPECT_EQ((*made)->chains(), kWholeFiles == WholeFiles::kChain);
  return *std::move(made);
}

template <bool kSqpoll, bool kIopoll, bool kFixedFiles>
std::unique_ptr<Backend> make_special(std::size_t queue_depth) {
  UringOptions options;
  options.queue_depth = queue_depth;
  options.ring.sqpoll = kSqpoll;
  options.ring.iopoll = kIopoll;
  options.fixed_files = kFixedFiles;
  options.access.wanted = Access::kDirect;
  auto made = UringBackend::create(options);
  return made ? *std::move(made) : nullptr;
}

inline std::unique_ptr<Backend> make_null(std::size_t queue_depth) {
  return std::make_unique<testing::NullBackend>(kFileBytes, queue_depth);
}

inline std::unique_ptr<Backend> make_slow(std::size_t queue_depth) {
  return std::make_unique<testing::SlowBackend>(make_threads<Access::kPageCache>(queue_depth),
                                                testing::Latency{0, 20'000, 1});
}

inline std::unique_ptr<Backend> make_faultless(std::size_t queue_depth) {
  return std::make_unique<testing::FaultyBackend>(make_threads<Access::kPageCache>(queue_depth),
                                                  testing::FaultPlan{});
}

inline std::unique_ptr<Backend> make_late(std::size_t queue_depth) {
  testing::FaultPlan plan;
  plan.late_share = 0.3;
  return std::make_unique<testing::FaultyBackend>(make_threads<Access::kPageCache>(queue_depth),
                                                  plan);
}

inline const Variant kVariants[] = {
    {"Buffered", make_threads<Access::kPageCache>},
    {"Uncached", make_threads<Access::kUncached>},
    {"Direct", make_threads<Access::kDirect>},
    {"UringChain", make_uring<WholeFiles::kChain, true>},
    {"UringChainRegistered", make_uring<WholeFiles::kChain, true>, true},
    {"UringChainPlainRing", make_uring<WholeFiles::kChain, false>},
    {"UringUncached", make_uring<WholeFiles::kChain, true, Access::kUncached>},
    {"UringDirect", make_uring<WholeFiles::kChain, true, Access::kDirect>},
    {"UringDirectRegistered", make_uring<WholeFiles::kChain, true, Access::kDirect>, true},
    {"UringDirectOpenFirst", make_uring<WholeFiles::kOpenFirst, true, Access::kDirect>, true},
    {"UringDirectPlainRing", make_uring<WholeFiles::kChain, false, Access::kDirect>},
    {"UringSqpoll", make_special<true, false, true>, true},
    {"UringIopoll", make_special<false, true, true>, true},
    {"UringNoFixedFiles", make_special<false, false, false>, true},
    {"UringOpenFirst", make_uring<WholeFiles::kOpenFirst, true>},
    {"UringOpenFirstRegistered", make_uring<WholeFiles::kOpenFirst, false>, true},
    {"Null", make_null},
    {"SlowBuffered", make_slow},
    {"FaultyWithoutFaults", make_faultless},
    {"FaultyLate", make_late},
};

class BackendContract : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (GetParam().name.starts_with("Uring")) {
      if (const auto probe = probe_uring(); !probe) GTEST_SKIP() << probe.error().message;
    }
    make();
    path_ = folder_.write("known.bin", known_content(kFileBytes));
  }

  /// A back end with memory of `memory_bytes` that it was told of, if it is to be.
  void make(std::size_t queue_depth = 32, std::size_t memory_bytes = std::size_t{4} << 20) {
    backend_.reset();
    backend_ = GetParam().make(queue_depth);
    ASSERT_NE(backend_, nullptr);
    memory_ = HostMemory(memory_bytes);
    if (GetParam().registers) {
      const auto registered = backend_->register_memory(memory_.bytes());
      ASSERT_TRUE(registered) << registered.error().message;
    }
  }

  bool is_direct() const {
    const std::string& name = GetParam().name;
    return name.find("Direct") != std::string::npos || name == "UringSqpoll" ||
           name == "UringIopoll" || name == "UringNoFixedFiles";
  }
  bool is_uncached() const { return GetParam().name.find("Uncached") != std::string::npos; }
  bool is_null() const { return GetParam().name == "Null"; }
  std::span<std::byte> memory(std::size_t offset, std::size_t size) const {
    return memory_.bytes().subspan(offset, size);
  }
  std::unique_ptr<File> open(const std::string& path) {
    auto file = backend_->open(path);
    if (file) return *std::move(file);
    ADD_FAILURE() << file.error().message;
    return nullptr;
  }
  static std::span<std::byte> head(const ReadRequest& request, const Completion& completion) {
    return request.destination.first(*completion.bytes_read);
  }

  testing::TempDir folder_;
  std::string path_;
  HostMemory memory_;
  std::unique_ptr<Backend> backend_;  // Last: gone before its memory.
};

}  // namespace feedrace::storage
