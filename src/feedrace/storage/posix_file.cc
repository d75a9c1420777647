// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/posix_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "feedrace/storage/failures.h"

namespace feedrace::storage {
namespace {

/// O_NONBLOCK changes nothing for a regular file, but a FIFO without a writer opens at once instead
/// of never. O_NOCTTY: a path out of a data set must not become our terminal.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;

int open_retrying(const char* path) noexcept {
  int fd = -1;
  do {
    fd = openat(AT_FDCWD, path, kOpenFlags);
  } while (fd < 0 && errno == EINTR);
  return fd;
}

/// "s3" of "s3://bucket/key"; empty when `uri` has no scheme (RFC 3986, 3.1).
std::string_view scheme_of(std::string_view uri) {
  const std::string_view scheme = uri.substr(0, uri.find("://"));
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); };
  const auto allowed = [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  };
  const bool is_scheme = scheme.size() < uri.size() && !scheme.empty() && letter(scheme[0]) &&
                         std::all_of(scheme.begin(), scheme.end(), allowed);
  return is_scheme ? scheme : std::string_view{};
}

Failure not_opened(const std::string& name, int error_number) {
  const std::string scheme(scheme_of(name));
  if (error_number == ENOENT && !scheme.empty()) {
    return named_failure(ErrorCode::kUnsupported, name,
                         "scheme \"" + scheme + "\" is not known; give the path of a local file");
  }
  return open_failure(name, "openat", error_number);
}

}  // namespace

FileDescriptor::~FileDescriptor() {
  if (fd_ >= 0) close(fd_);
}

FileDescriptor open_whole(const char* path) noexcept { return FileDescriptor(open_retrying(path)); }

Result<std::unique_ptr<File>> open_posix(std::string_view uri) {
  std::string name(uri);
  if (name.find('\0') != std::string::npos) {
    return named_failure(ErrorCode::kNotFound, name,
                         "no path holds a 0 byte; check where the name comes from");
  }
  FileDescriptor fd(open_retrying(name.c_str()));
  if (!fd) return not_opened(name, errno);
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) return open_failure(name, "fstat", errno);
  if (S_ISDIR(info.st_mode)) return open_failure(name, "openat", EISDIR);
  if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)) {
    return named_failure(ErrorCode::kIo, name,
                         "is neither a file nor a block device; give a regular file");
  }
  const off_t end = S_ISREG(info.st_mode) ? info.st_size : lseek(fd.get(), 0, SEEK_END);
  if (end < 0) return open_failure(name, "lseek", errno);
  // Served its purpose. Left on, io_uring would refuse to wait on file systems without RWF_NOWAIT.
  if (fcntl(fd.get(), F_SETFL, 0) != 0) return open_failure(name, "fcntl", errno);
  return std::unique_ptr<File>(
      std::make_unique<PosixFile>(std::move(fd), static_cast<std::uint64_t>(end), std::move(name)));
}

Result<Target> target_of(const ReadRequest& request) noexcept {
  if (request.file == nullptr) {
    if (request.path != nullptr) return Target{nullptr, request.path};
    return named_failure(ErrorCode::kInvalidArgument, "read request",
                         "names neither a file nor a path; set one of them");
  }
  const auto* file = dynamic_cast<const PosixFile*>(request.file);
  if (file != nullptr) return Target{file, file->uri()};
  return named_failure(ErrorCode::kInvalidArgument, request.file->uri(),
                       "was opened by a back end of another kind; open it with this one");
}

RangeRead read_range(int fd, std::uint64_t offset_bytes, std::span<std::byte> destination,
                     const StopSign& stop) noexcept {
  // Large enough to cost nothing, small enough that a cancelled read ends within milliseconds.
  constexpr std::size_t kStepBytes = std::size_t{8} << 20;
  RangeRead read;
  while (true) {
    const auto rest = destination.subspan(read.bytes);
    iovec step{rest.data(), std::min(rest.size(), kStepBytes)};
    const ssize_t count = preadv2(fd, &step, 1, static_cast<off_t>(offset_bytes + read.bytes), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      read.error_number = errno;
      return read;
    }
    read.bytes += static_cast<std::size_t>(count);
    if (count == 0 || read.bytes == destination.size()) return read;
    if (stop.raised()) {
      read.error_number = ECANCELED;
      return read;
    }
  }
}

}  // namespace feedrace::storage
