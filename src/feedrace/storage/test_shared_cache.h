// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tests of the shared cache share: a folder in memory, known samples, processes to kill.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <system_error>

#include <gtest/gtest.h>

#include "feedrace/storage/shared_cache.h"
#include "feedrace/storage/test_support.h"

namespace feedrace::storage {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

/// A folder of the test's own in memory, gone at the end.
class MemoryFolder {
 public:
  MemoryFolder() {
    char path[] = "/dev/shm/feedrace-test-XXXXXX";
    if (mkdtemp(path) == nullptr) throw std::runtime_error("mkdtemp in /dev/shm");
    path_ = path;
  }
  ~MemoryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string cache_file(const std::string& name = "test") const {
    return path_ + "/feedrace-" + std::to_string(geteuid()) + "-" + name + ".cache";
  }
  SharedCache::Options options(std::uint64_t limit_bytes = kMiB) const {
    return {"test", limit_bytes, path_};
  }
  std::shared_ptr<SharedCache> open(std::uint64_t limit_bytes = kMiB) const {
    auto cache = SharedCache::open(options(limit_bytes));
    if (!cache) throw std::runtime_error(cache.error().message);
    return *cache;
  }
  std::size_t file_count() const {
    const std::filesystem::directory_iterator files(path_);
    return static_cast<std::size_t>(std::distance(begin(files), end(files)));
  }

 private:
  std::string path_;
};

/// Keys that fall on neighbouring slots, so that searches go past one another.
inline SharedCache::Key key_number(std::uint64_t number) { return {number * 0x9e3779b9, number}; }

/// What the sample is made of: never zero, as untouched memory is.
inline std::byte byte_of(std::uint64_t number) { return static_cast<std::byte>(1 + number % 255); }

inline void write_sample(std::span<std::byte> bytes, std::uint64_t number) {
  std::ranges::fill(bytes, byte_of(number));
}

inline bool is_sample(std::span<const std::byte> bytes, std::uint64_t number) {
  return is_filled_with(bytes, byte_of(number));
}

/// Claims, writes and fills a sample that nobody has.
inline std::span<const std::byte> put(SharedCache& cache, std::uint64_t number,
                                      std::size_t size_bytes) {
  SharedCache::Found found = cache.find_or_claim(key_number(number), size_bytes);
  EXPECT_EQ(found.state, SharedCache::State::kClaimed) << "sample " << number;
  if (!found.claim) return {};
  write_sample(found.claim.memory().first(size_bytes), number);
  return found.claim.fill(size_bytes);
}

/// Another process, which is killed unless it ends by itself.
class Child {
 public:
  /// Runs `work(say)` in it; `say(x)` is heard by `hear()`. Ends with 0, or 1 after an exception.
  explicit Child(const std::function<void(const std::function<void(int)>&)>& work) {
    int ends[2];
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
    pid_ = fork();
    if (pid_ != 0) {
      close(ends[1]);
      from_ = ends[0];
      return;
    }
    close(ends[0]);
    int status = 0;
    try {
      work([&ends](int word) {
        if (write(ends[1], &word, sizeof word) != sizeof word) _exit(2);
      });
    } catch (const std::exception&) {
      status = 1;
    }
    _exit(status);
  }
  ~Child() {
    if (pid_ > 0) end();
    close(from_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  /// What it said, or -1 when it ended without.
  int hear() const {
    int word = -1;
    return read(from_, &word, sizeof word) == sizeof word ? word : -1;
  }
  /// SIGKILL, and gone. The status of waitpid().
  int end() {
    kill(pid_, SIGKILL);
    return wait();
  }
  int wait() {
    int status = -1;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return status;
  }

 private:
  pid_t pid_ = -1;
  int from_ = -1;
};

/// Sleeps until it is killed.
inline void stay() {
  while (true) pause();
}

}  // namespace feedrace::storage
