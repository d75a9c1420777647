// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/posix_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::formats {
namespace {

constexpr std::string_view kOpenFilesAdvice =
    "; raise the limit of open files (ulimit -n, or fs.file-max for all programs)";

bool is_reading(std::string_view call) {
  constexpr std::array<std::string_view, 7> kReading = {"open", "open folder", "stat", "statvfs",
                                                        "read", "read folder", "mmap"};
  return std::ranges::find(kReading, call) != kReading.end();
}

std::string_view advice_on_reading(int error_number) {
  switch (error_number) {
    case EACCES:
    case EPERM:
      return "; let this user read it and enter every folder above it";
    case ENOENT:
    case ENOTDIR:
      return "; check the path";
    case ELOOP:
      return "; a link leads back to itself: name the file that is meant";
    case ENAMETOOLONG:
      return "; move the data set to a shorter path";
    case EISDIR:
      return "; name a file in it";
    case EMFILE:
    case ENFILE:
      return kOpenFilesAdvice;
    default:
      return "; look at the device (dmesg)";
  }
}

}  // namespace

Fd::~Fd() {
  if (fd_ >= 0) close(fd_);
}

std::string_view advice_on_writing(int error_number) {
  switch (error_number) {
    case ENOSPC:
    case EDQUOT:
      return kFullDiskAdvice;
    case EFBIG:
      return "; files may not be this large here: raise ulimit -f, or write elsewhere";
    case EROFS:
      return "; it is mounted read-only: write elsewhere";
    case EACCES:
    case EPERM:
      return "; get the right to write there, or write elsewhere";
    case ENOENT:
    case ENOTDIR:
      return "; make the folder first, or write elsewhere";
    case EMFILE:
    case ENFILE:
      return kOpenFilesAdvice;
    case ENXIO:
      return "; a pipe that nobody reads: start its reader first";
    case EISDIR:
      return "; it is a folder: name a file";
    default:
      return "; look at the disk, or write elsewhere";
  }
}

Failure system_failure(const std::string& path, const char* call, int error_number) {
  const bool absent = error_number == ENOENT || error_number == ENOTDIR;
  return {absent ? ErrorCode::kNotFound : ErrorCode::kIo,
          fmt::format("{}: {}{}", printable(path), errno_text(call, error_number),
                      is_reading(call) ? advice_on_reading(error_number)
                                       : advice_on_writing(error_number))};
}

Result<Fd> open_for_reading(const std::string& path) {
  Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return system_failure(path, "open", errno);
  return fd;
}

Result<std::size_t> read_at(int fd, const std::string& path, std::uint64_t offset_bytes,
                            std::span<char> out) {
  std::size_t filled = 0;
  while (filled < out.size()) {
    const ssize_t got = pread(fd, out.data() + filled, out.size() - filled,
                              static_cast<off_t>(offset_bytes + filled));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure(path, "read", errno);
    if (got == 0) break;
    filled += static_cast<std::size_t>(got);
  }
  return filled;
}

Result<void> write_at(int fd, const std::string& path, std::uint64_t offset_bytes,
                      std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = pwrite(fd, bytes.data(), bytes.size(), static_cast<off_t>(offset_bytes));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return system_failure(path, "write", errno);
    offset_bytes += static_cast<std::uint64_t>(put);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Result<std::string> read_whole_file(const std::string& path) {
  Result<Fd> fd = open_for_reading(path);
  if (!fd) return fd.error();
  struct stat status{};
  if (fstat(fd->get(), &status) != 0) return system_failure(path, "stat", errno);
  if (!S_ISREG(status.st_mode)) {
    return Failure{ErrorCode::kIo, fmt::format("{}: not a regular file", printable(path))};
  }
  std::string content(static_cast<std::size_t>(status.st_size), '\0');
  const Result<std::size_t> got = read_at(fd->get(), path, 0, content);
  if (!got) return got.error();
  content.resize(*got);
  return content;
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::int64_t mtime_ns(const struct stat& status) noexcept {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace feedrace::formats
