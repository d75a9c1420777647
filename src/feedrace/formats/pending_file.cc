// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/pending_file.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <random>

#include <fmt/format.h>

#include "feedrace/core/open_output.h"
#include "feedrace/core/text.h"

namespace feedrace::formats {
namespace {

constexpr mode_t kMode = 0666;  // Less the umask.

bool is_other_than_file(const std::string& path) {
  struct stat status{};
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

}  // namespace

Failure write_failure(const std::string& path, const char* call, int error_number) {
  return {ErrorCode::kIo, fmt::format("{}: {}{}", printable(path), errno_text(call, error_number),
                                      advice_on_writing(error_number))};
}

Result<void> check_writable(const std::string& path) {
  struct stat status{};
  const bool is_there = stat(path.c_str(), &status) == 0;
  if (is_there && S_ISDIR(status.st_mode)) return write_failure(path, "open", EISDIR);
  if (is_there && !S_ISREG(status.st_mode)) return {};  // Its reader may come yet.
  const Result<PendingFile> tried = PendingFile::create(path);
  if (!tried) return tried.error();
  return {};
}

Result<PendingFile> PendingFile::create(const std::string& path) {
  if (is_other_than_file(path)) {
    Fd fd(open_output(path, 0));
    if (!fd) return write_failure(path, "open", errno);
    return PendingFile(AT_FDCWD, path, path, "", std::move(fd));
  }
  // Not by mkostemp, which lets nobody else read it.
  std::random_device random;
  std::string temporary = fmt::format("{}.tmp-{:08x}{:08x}", path, random(), random());
  Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kMode));
  if (!fd) return write_failure(path, "create", errno);
  return PendingFile(AT_FDCWD, path, path, std::move(temporary), std::move(fd));
}

Result<PendingFile> PendingFile::create_in(int folder_fd, const std::string& folder,
                                           const std::string& name, std::string temporary) {
  std::string path = folder + (folder.ends_with('/') ? "" : "/") + name;
  Fd fd(openat(folder_fd, temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kMode));
  if (!fd) return write_failure(path, "create", errno);
  return PendingFile(folder_fd, std::move(path), name, std::move(temporary), std::move(fd));
}

PendingFile::~PendingFile() {
  if (!temporary_.empty()) unlinkat(folder_fd_, temporary_.c_str(), 0);
}

Result<void> PendingFile::append(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd_.get(), bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return failure("write", errno);
    bytes.remove_prefix(static_cast<std::size_t>(put));
  }
  return {};
}

Result<void> PendingFile::publish() {
  const bool is_in_place = temporary_.empty();  // A pipe has no fsync.
  if (!is_in_place && fsync(fd_.get()) != 0) return failure("fsync", errno);
  // Network file systems tell of a full disk here.
  if (close(fd_.release()) != 0) return failure("close", errno);
  if (is_in_place) return {};
  if (renameat(folder_fd_, temporary_.c_str(), folder_fd_, name_.c_str()) != 0) {
    return failure("rename", errno);
  }
  temporary_.clear();
  return sync_folder();
}

/// Makes the rename survive a loss of power.
Result<void> PendingFile::sync_folder() const {
  Fd opened;
  if (folder_fd_ == AT_FDCWD) {
    opened = Fd(open(folder_of(path_).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!opened) return {};  // May be written to and not listed: nothing better can be had.
  }
  // Some file systems have no fsync of folders, and need none.
  if (fsync(opened ? opened.get() : folder_fd_) == 0 || errno == EINVAL) return {};
  return failure("fsync", errno);
}

Result<void> put_file(const std::string& path, std::string_view content) {
  Result<PendingFile> file = PendingFile::create(path);
  if (!file) return file.error();
  if (Result<void> put = file->append(content); !put) return put;
  return file->publish();
}

}  // namespace feedrace::formats
