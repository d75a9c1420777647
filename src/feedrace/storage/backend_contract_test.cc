// SPDX-License-Identifier: Apache-2.0
// What every back end promises (feedrace/backend.h), run over each of them.
// See file_contract_test.cc for what is special to files of an operating system.

#include "feedrace/storage/backend_contract.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace::storage {
namespace {

using ::testing::HasSubstr;

INSTANTIATE_TEST_SUITE_P(All, BackendContract, ::testing::ValuesIn(kVariants),
                         [](const auto& variant) { return variant.param.name; });

TEST_P(BackendContract, ReadsAtEveryAlignment) {
  const auto file = open(path_);
  std::vector<ReadRequest> requests;
  std::size_t at = 0;
  for (const std::uint64_t offset : {0, 1, 7, 511, 512, 513, 4095, 4096, 4097, 65'535, 999'000}) {
    for (const std::size_t size : {1, 511, 512, 513, 4096, 4097}) {
      requests.push_back({file.get(), nullptr, offset, memory(at, size), requests.size()});
      at += size + requests.size() % 9;  // Destinations at all addresses modulo 8 and more.
    }
  }
  for (const auto& [index, completion] : read_all(*backend_, requests)) {
    const ReadRequest& request = requests[index];
    ASSERT_TRUE(completion.bytes_read) << completion.bytes_read.error().message;
    EXPECT_EQ(*completion.bytes_read, std::min<std::uint64_t>(request.destination.size(),
                                                              kFileBytes - request.offset_bytes));
    EXPECT_TRUE(is_known(head(request, completion), request.offset_bytes))
        << "at offset " << request.offset_bytes;
  }
}

TEST_P(BackendContract, LeavesTheBytesAroundADestinationAlone) {
  const auto file = open(path_);
  std::memset(memory_.data(), 0xA5, memory_.size_bytes());
  read_one(*backend_, {file.get(), nullptr, kFileBytes - 100, memory(1000, 4096)});
  EXPECT_TRUE(is_known(memory(1000, 100), kFileBytes - 100));
  EXPECT_TRUE(is_filled_with(memory(0, 1000), std::byte{0xA5}));
  EXPECT_TRUE(is_filled_with(memory(1100, 10'000), std::byte{0xA5}));
}

TEST_P(BackendContract, ReadsShortAtTheEndOfTheFileOnly) {
  const auto file = open(path_);
  EXPECT_EQ(file->size_bytes(), kFileBytes);
  const auto count = [&](std::uint64_t offset, std::size_t size) {
    const auto done = read_one(*backend_, {file.get(), nullptr, offset, memory(0, size)});
    return done.bytes_read ? *done.bytes_read : 999'999'999;
  };
  EXPECT_EQ(count(kFileBytes - 10, 10), 10U);
  EXPECT_EQ(count(kFileBytes - 10, 11), 10U);
  EXPECT_EQ(count(kFileBytes, 4096), 0U);
  EXPECT_EQ(count(kFileBytes + 1, 4096), 0U);
  EXPECT_EQ(count(std::uint64_t{1} << 42, 4096), 0U);
  EXPECT_EQ(count(0, kFileBytes + 4096), kFileBytes);
}

TEST_P(BackendContract, ReadsNothingWhenNothingIsAskedFor) {
  const auto file = open(path_);
  const auto range = read_one(*backend_, {file.get(), nullptr, 77, {}});
  ASSERT_TRUE(range.bytes_read) << range.bytes_read.error().message;
  EXPECT_EQ(*range.bytes_read, 0U);
  const auto whole = read_one(*backend_, {nullptr, path_.c_str(), 0, {}});
  ASSERT_TRUE(whole.bytes_read) << whole.bytes_read.error().message;
  EXPECT_EQ(*whole.bytes_read, 0U);
}

TEST_P(BackendContract, TakesNoMoreThanItsLimitAndLosesNothing) {
  make(32);
  const auto file = open(path_);
  ASSERT_EQ(backend_->limits().max_in_flight, 32U);
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < 1000; ++i) {
    requests.push_back({file.get(), nullptr, i * 997, memory(i * 1024, 1024), i});
  }
  EXPECT_EQ(backend_->submit(requests), 32U);
  EXPECT_EQ(backend_->submit(std::span(requests).subspan(32)), 0U);
  std::vector<Completion> out(1000);
  std::set<std::uint64_t> seen;
  std::size_t sent = 32;
  while (seen.size() < requests.size()) {
    const std::size_t count = backend_->wait(out, 7);
    ASSERT_GE(count, std::min<std::size_t>(7, requests.size() - seen.size()));
    for (std::size_t i = 0; i < count; ++i) {
      const ReadRequest& request = requests[out[i].user_data];
      EXPECT_TRUE(seen.insert(out[i].user_data).second);
      ASSERT_TRUE(out[i].bytes_read) << out[i].bytes_read.error().message;
      EXPECT_TRUE(is_known(head(request, out[i]), request.offset_bytes));
    }
    const std::size_t taken = backend_->submit(std::span(requests).subspan(sent));
    EXPECT_LE(taken, count);
    sent += taken;
  }
  EXPECT_EQ(backend_->wait(out, 1), 0U);
}

TEST_P(BackendContract, WaitsForAsManyAsThereAreAndNoMoreThanFit) {
  const auto file = open(path_);
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < 5; ++i) {
    requests.push_back({file.get(), nullptr, 0, memory(i * 4096, 4096), i});
  }
  std::vector<Completion> out(32);
  EXPECT_EQ(backend_->wait(out, 0), 0U);
  EXPECT_EQ(backend_->wait(out, 32), 0U);
  ASSERT_EQ(backend_->submit(requests), 5U);
  EXPECT_EQ(backend_->wait(std::span(out).first(2), 9), 2U);
  EXPECT_EQ(backend_->wait(out, 9), 3U);
  ASSERT_EQ(backend_->submit(requests), 5U);
  std::size_t polled = 0;
  while (polled < 5) polled += backend_->wait(out, 0);
  EXPECT_EQ(polled, 5U);
}

TEST_P(BackendContract, SaysWhichWayTheBytesCame) {
  const auto file = open(path_);
  const auto done = read_one(*backend_, {file.get(), nullptr, 0, memory(0, 4096)});
  const auto file_system = host::probe_file_system(path_);
  ASSERT_TRUE(file_system) << file_system.error().message;
  const bool has_direct = file_system->direct_alignment_bytes > 0;
  Path expected = Path::kPageCache;
  if (is_null()) expected = Path::kMemory;
  if (is_uncached() || (is_direct() && !has_direct)) expected = Path::kUncached;
  if (is_direct() && has_direct) expected = Path::kDirect;
  if (file_system->is_in_memory && !is_null()) expected = Path::kPageCache;
  EXPECT_EQ(done.path, expected);
  // A whole file likewise, whether or not it is opened in one go with its read.
  const auto whole = read_one(*backend_, {nullptr, path_.c_str(), 0, memory(0, 1 << 20)});
  EXPECT_EQ(whole.path, expected);
  EXPECT_EQ(*whole.bytes_read, kFileBytes);
}

TEST_P(BackendContract, CountsAndReadsRightWhatIsNotAligned) {
  const auto file = open(path_);
  const std::size_t alignment = file->alignment_bytes();
  if (alignment == 1) GTEST_SKIP() << "all reads are equal here";
  const auto path_of = [&](std::uint64_t offset, std::size_t at, std::size_t size) {
    const auto done = read_one(*backend_, {file.get(), nullptr, offset, memory(at, size)});
    EXPECT_TRUE(done.bytes_read && is_known(memory(at, *done.bytes_read), offset));
    return done.path;
  };
  EXPECT_EQ(path_of(alignment, 0, alignment), Path::kDirect);
  EXPECT_NE(path_of(alignment - 1, 0, alignment), Path::kDirect);
  EXPECT_NE(path_of(alignment, 1, alignment), Path::kDirect);
  EXPECT_NE(path_of(alignment, 0, alignment - 1), Path::kDirect);
  // The end of the file inside of an aligned read.
  const std::uint64_t last = kFileBytes / alignment * alignment;
  EXPECT_EQ(path_of(last, 0, alignment), Path::kDirect);
}

TEST_P(BackendContract, FillsADestinationThatIsSmallerThanTheFile) {
  for (const std::size_t size : {std::size_t{1}, std::size_t{4096}, kFileBytes - 1, kFileBytes}) {
    const ReadRequest request{nullptr, path_.c_str(), 0, memory(3, size)};
    const auto done = read_one(*backend_, request);
    ASSERT_TRUE(done.bytes_read) << done.bytes_read.error().message;
    EXPECT_EQ(*done.bytes_read, size);
    EXPECT_TRUE(is_known(head(request, done), 0));
  }
}

TEST_P(BackendContract, CompletesEveryReadAlsoAfterCancellation) {
  const auto file = open(path_);
  for (int round = 0; round < 20; ++round) {
    std::vector<ReadRequest> requests;
    for (std::size_t i = 0; i < 32; ++i) {
      const bool whole = i % 2 == 0;
      requests.push_back({whole ? nullptr : file.get(), whole ? path_.c_str() : nullptr, 0,
                          memory(i * 100'000, 100'000), i});
    }
    ASSERT_EQ(backend_->submit(requests), 32U);
    backend_->cancel_all();
    std::vector<Completion> out(64);
    ASSERT_EQ(backend_->wait(out, 64), 32U);
    std::set<std::uint64_t> seen;
    for (std::size_t i = 0; i < 32; ++i) {
      seen.insert(out[i].user_data);
      if (out[i].bytes_read) {
        EXPECT_TRUE(is_known(head(requests[out[i].user_data], out[i]), 0));
        EXPECT_EQ(*out[i].bytes_read, 100'000U);
      } else {
        EXPECT_EQ(out[i].bytes_read.error().code, ErrorCode::kCancelled);
        EXPECT_THAT(out[i].bytes_read.error().message, HasSubstr(path_));
      }
    }
    EXPECT_EQ(seen.size(), 32U);
    // A cancellation is over with the reads that it met.
    const auto next = read_one(*backend_, {file.get(), nullptr, 0, memory(0, 4096)});
    ASSERT_TRUE(next.bytes_read) << next.bytes_read.error().message;
  }
}

TEST_P(BackendContract, CancelsNothingWhenNothingIsInFlight) {
  backend_->cancel_all();
  backend_->cancel_all();
  const auto file = open(path_);
  EXPECT_TRUE(read_one(*backend_, {file.get(), nullptr, 0, memory(0, 4096)}).bytes_read);
}

TEST_P(BackendContract, WritesNothingAfterItIsDestroyed) {
  for (int round = 0; round < 5; ++round) {
    make(32, std::size_t{4} << 20);
    const auto file = open(path_);
    // Out of the page cache, so that the device has to be waited for.
    const int fd = ::open(path_.c_str(), O_RDONLY);
    fdatasync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    std::vector<ReadRequest> requests;
    for (std::size_t i = 0; i < 32; ++i) {
      const bool whole = i % 2 == 0;
      requests.push_back({whole ? nullptr : file.get(), whole ? path_.c_str() : nullptr, 0,
                          memory(i << 17, std::size_t{1} << 17), i});
    }
    ASSERT_EQ(backend_->submit(requests), 32U);
    backend_.reset();
    std::memset(memory_.data(), 0x5A, memory_.size_bytes());
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(is_filled_with(memory_.bytes(), std::byte{0x5A}));
  }
}

TEST_P(BackendContract, MayBeMadeInOneThreadAndUsedInAnother) {
  make(8);
  const auto file = open(path_);
  bool was_read = false;
  std::thread user([&] {
    const auto done = read_one(*backend_, {file.get(), nullptr, 5, memory(0, 5000)});
    was_read = done.bytes_read && *done.bytes_read == 5000 && is_known(memory(0, 5000), 5);
    const ReadRequest left_in_flight{file.get(), nullptr, 0, memory(0, 5000)};
    was_read = was_read && backend_->submit({&left_in_flight, 1}) == 1;
    backend_.reset();
  });
  user.join();
  EXPECT_TRUE(was_read);
}

TEST_P(BackendContract, MayBeDestroyedByAnyThreadWhenNothingIsInFlight) {
  const auto file = open(path_);
  ASSERT_TRUE(read_one(*backend_, {file.get(), nullptr, 0, memory(0, 4096)}).bytes_read);
  std::thread([&] { backend_.reset(); }).join();
  EXPECT_EQ(backend_, nullptr);
}

TEST_P(BackendContract, TenThousandRandomReadsEqualTheContent) {
  const auto file = open(path_);
  std::mt19937 random(7);
  std::size_t checked = 0;
  for (int round = 0; round < 100; ++round) {
    std::vector<ReadRequest> requests;
    for (std::size_t i = 0; i < 100; ++i) {
      const std::size_t size = random() % 8192;
      requests.push_back({file.get(), nullptr, random() % kFileBytes, memory(i * 8192, size), i});
    }
    for (const auto& [index, completion] : read_all(*backend_, requests)) {
      const ReadRequest& request = requests[index];
      ASSERT_TRUE(completion.bytes_read) << completion.bytes_read.error().message;
      ASSERT_TRUE(is_known(head(request, completion), request.offset_bytes));
      ASSERT_EQ(*completion.bytes_read, std::min<std::uint64_t>(request.destination.size(),
                                                                kFileBytes - request.offset_bytes));
      ++checked;
    }
  }
  EXPECT_EQ(checked, 10'000U);
}

TEST_P(BackendContract, AFileOutlivesTheBackendThatOpenedIt) {
  const auto file = open(path_);
  make(4);
  EXPECT_EQ(file->uri(), path_);
  const auto done = read_one(*backend_, {file.get(), nullptr, 12, memory(0, 1000)});
  ASSERT_TRUE(done.bytes_read) << done.bytes_read.error().message;
  EXPECT_TRUE(is_known(memory(0, 1000), 12));
}

TEST_P(BackendContract, WorksWithOneReadInFlight) {
  make(1);
  const auto file = open(path_);
  std::vector<ReadRequest> requests;
  for (std::size_t i = 0; i < 50; ++i) {
    const bool whole = i % 2 == 0;
    requests.push_back({whole ? nullptr : file.get(), whole ? path_.c_str() : nullptr, 0,
                        memory(i * 5000, 5000), i});
  }
  for (const auto& [index, completion] : read_all(*backend_, requests)) {
    ASSERT_TRUE(completion.bytes_read) << completion.bytes_read.error().message;
    EXPECT_TRUE(is_known(requests[index].destination, 0));
  }
}

TEST_P(BackendContract, ReadsIntoMemoryThatItWasNotToldOf) {
  const auto file = open(path_);
  std::vector<std::byte> elsewhere(70'000);
  const auto done = read_one(*backend_, {file.get(), nullptr, 100, elsewhere});
  ASSERT_TRUE(done.bytes_read) << done.bytes_read.error().message;
  EXPECT_TRUE(is_known(elsewhere, 100));
}

TEST_P(BackendContract, InterruptEndsAWaitAndLosesNothing) {
  const auto file = open(path_);
  std::thread interrupter;
  std::size_t came = 0;
  std::vector<Completion> out(32);
  for (int round = 0; round < 50; ++round) {
    std::vector<ReadRequest> requests;
    for (std::size_t i = 0; i < 16; ++i) {
      requests.push_back({file.get(), nullptr, 0, memory(i * 65'536, 65'536), i});
    }
    came += 16;
    ASSERT_EQ(backend_->submit(requests), 16U);
    interrupter = std::thread([&] { backend_->interrupt(); });
    for (std::size_t left = 16; left > 0;) {
      const std::size_t count = backend_->wait(out, left);  // May be fewer, or none.
      ASSERT_LE(count, left);
      for (const Completion& completion : std::span(out).first(count)) {
        ASSERT_TRUE(completion.bytes_read) << completion.bytes_read.error().message;
      }
      left -= count;
      came -= count;
    }
    interrupter.join();
  }
  EXPECT_EQ(came, 0U);
}

}  // namespace
}  // namespace feedrace::storage
