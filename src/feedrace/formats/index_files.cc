// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/index_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::formats {
namespace {

/// kNotFound only where there is nothing: what is there, but is no folder, shall be told.
Failure describe_no_folder(const std::string& path, int error_number) {
  struct stat status{};
  const bool is_absent = error_number == ENOENT || error_number == ENOTDIR;
  if (!is_absent || lstat(path.c_str(), &status) != 0) {
    return system_failure(path, "open", error_number);
  }
  return {ErrorCode::kCorruptData,
          fmt::format("{}: {}", printable(path),
                      error_number == ENOENT ? "a link that leads nowhere" : "not a folder")};
}

Failure not_a_file(const std::string& path) {
  return {ErrorCode::kCorruptData, fmt::format("{}: not a regular file", printable(path))};
}

}  // namespace

Result<std::unique_ptr<FolderFiles>> FolderFiles::open_folder(const std::string& path) {
  Fd folder(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return describe_no_folder(path, errno);
  return std::unique_ptr<FolderFiles>(new FolderFiles(std::move(folder), path));
}

Result<Fd> FolderFiles::create(const std::string& name) {
  constexpr mode_t kMode = 0666;  // Less the umask: as readable as the user's other files.
  Fd fd(openat(folder_.get(), name.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!fd) return system_failure(path(name), "create", errno);
  return fd;
}

Result<Fd> FolderFiles::open(const std::string& name) const {
  Fd fd(openat(folder_.get(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd && errno == ENXIO) return not_a_file(path(name));  // A socket.
  if (!fd) return system_failure(path(name), "open", errno);
  struct stat status{};
  if (fstat(fd.get(), &status) != 0) return system_failure(path(name), "stat", errno);
  if (!S_ISREG(status.st_mode)) return not_a_file(path(name));
  return fd;
}

Result<void> FolderFiles::remove(const std::string& name) {
  if (unlinkat(folder_.get(), name.c_str(), 0) != 0) {
    return system_failure(path(name), "unlink", errno);
  }
  return {};
}

Result<void> FolderFiles::sync() {
  // The whole file system in one call would also wait for other people's writes.
  if (fsync(folder_.get()) != 0) return system_failure(path_, "fsync", errno);
  return {};
}

Result<Fd> MemoryFiles::create(const std::string& name) {
  Fd fd(memfd_create(("feedrace-index-" + name).c_str(), MFD_CLOEXEC));
  if (!fd) return system_failure(path(name), "memfd_create", errno);
  Fd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return system_failure(path(name), "dup", errno);
  files_[name] = std::move(fd);
  return copy;
}

Result<void> MemoryFiles::remove(const std::string& name) {
  if (files_.erase(name) == 0) return system_failure(path(name), "unlink", ENOENT);
  return {};
}

Result<Fd> MemoryFiles::open(const std::string& name) const {
  const auto found = files_.find(name);
  if (found == files_.end()) return system_failure(path(name), "open", ENOENT);
  Fd copy(fcntl(found->second.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy) return system_failure(path(name), "dup", errno);
  return copy;
}

}  // namespace feedrace::formats
