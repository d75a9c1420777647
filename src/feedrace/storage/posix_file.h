// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "feedrace/backend.h"

namespace feedrace::storage {

/// A file descriptor that closes itself.
class FileDescriptor {
 public:
  FileDescriptor() = default;
  explicit FileDescriptor(int fd) noexcept : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~FileDescriptor();

  int get() const noexcept { return fd_; }
  explicit operator bool() const noexcept { return fd_ >= 0; }

 private:
  int fd_ = -1;
};

/// A file of the local file system, read through the page cache. Needs no back end to live.
class PosixFile final : public File {
 public:
  PosixFile(FileDescriptor fd, std::uint64_t size_bytes, std::string uri)
      : fd_(std::move(fd)), size_bytes_(size_bytes), uri_(std::move(uri)) {}

  std::uint64_t size_bytes() const noexcept override { return size_bytes_; }
  const std::string& uri() const noexcept override { return uri_; }
  int fd() const noexcept { return fd_.get(); }

 private:
  FileDescriptor fd_;
  std::uint64_t size_bytes_;
  std::string uri_;
};

/// Opens a regular file or a block device. Failures as `Backend::open` has them.
Result<std::unique_ptr<File>> open_posix(std::string_view uri);

/// Opens the file of a whole-file request; never waits for the writer of a FIFO. On failure empty,
/// with errno set.
FileDescriptor open_whole(const char* path) noexcept;

/// The descriptor and the names that a request stands for. Lives as long as the request.
struct Target {
  const PosixFile* file = nullptr;  ///< Null for a whole-file request.
  std::string_view name;            ///< For messages.
};

/// kInvalidArgument when the request names no file, or one of another back end.
Result<Target> target_of(const ReadRequest& request) noexcept;

/// Says whether a read was cancelled: the back end's count of cancellations moved on since then.
struct StopSign {
  const std::atomic<std::uint64_t>& cancellations;
  std::uint64_t seen;
  bool raised() const noexcept { return cancellations.load(std::memory_order_relaxed) != seen; }
};

/// What `read_range` found.
struct RangeRead {
  std::size_t bytes = 0;
  int error_number = 0;  ///< 0: `bytes` are all that there were. ECANCELED when `stop` was raised.
};

/// Blocking; continues short reads and interrupted calls until `destination` is full or the file
/// ends. Looks at `stop` every few MiB.
RangeRead read_range(int fd, std::uint64_t offset_bytes, std::span<std::byte> destination,
                     const StopSign& stop) noexcept;

}  // namespace feedrace::storage
