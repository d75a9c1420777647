// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "feedrace/error.h"

namespace feedrace::formats {

/// Owns a file descriptor. Moves like `unique_ptr`.
class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) noexcept : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();

  explicit operator bool() const noexcept { return fd_ >= 0; }
  int get() const noexcept { return fd_; }
  int release() noexcept { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

/// Of a full disk, behind the error.
inline constexpr std::string_view kFullDiskAdvice = "; free space, or write elsewhere";
/// What to do about a file that can't be written: "; free space, or write elsewhere".
std::string_view advice_on_writing(int error_number);

/// "path: open: Permission denied; let this user read it ..." as kNotFound where there is nothing,
/// else kIo.
Failure system_failure(const std::string& path, const char* call, int error_number);

/// Opens for reading, close-on-exec, never waiting for the other end of a pipe.
Result<Fd> open_for_reading(const std::string& path);

/// Reads at `offset_bytes` until `out` is full or the file ends; returns how much came.
Result<std::size_t> read_at(int fd, const std::string& path, std::uint64_t offset_bytes,
                            std::span<char> out);

/// Writes all of `bytes` at `offset_bytes`.
Result<void> write_at(int fd, const std::string& path, std::uint64_t offset_bytes,
                      std::string_view bytes);

/// The whole of a regular file. Failures: kNotFound, kIo.
Result<std::string> read_whole_file(const std::string& path);

/// "c" of "a/b/c" and of "c".
std::string base_name(const std::string& path);
/// "a/b" of "a/b/c", "." of "c", "/" of "/c".
std::string folder_of(const std::string& path);

/// Modification time in nanoseconds since 1970.
std::int64_t mtime_ns(const struct stat& status) noexcept;

}  // namespace feedrace::formats
