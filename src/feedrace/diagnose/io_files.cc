// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/io_files.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/host/file_descriptor.h"
#include "feedrace/storage/failures.h"

namespace feedrace::diagnose {
namespace {

namespace fs = std::filesystem;

std::string kib(std::size_t bytes) {
  return bytes % 1024 == 0 ? fmt::format("{} KiB", bytes / 1024) : fmt::format("{} bytes", bytes);
}

Failure cannot_open(const std::string& path, int error_number) {
  struct stat status{};
  const bool is_device = stat(path.c_str(), &status) == 0 && S_ISBLK(status.st_mode);
  if (is_device && (error_number == EACCES || error_number == EPERM)) {
    return {
        ErrorCode::kIo,
        fmt::format("{}: Permission denied; run as root, or join the group that owns the device "
                    "(often disk)",
                    printable(path))};
  }
  return storage::open_failure(path, "open", error_number);
}

/// A file or a device, with all of its whole blocks.
IoFile file_of(const std::string& path, std::size_t block_bytes) {
  // O_NONBLOCK: a FIFO is refused below, not waited for.
  const host::FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) raise(cannot_open(path, errno));
  struct stat status{};
  fstat(fd.get(), &status);
  if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode)) {
    throw Error(ErrorCode::kInvalidArgument,
                printable(path) + ": is no file, folder or block device; name one");
  }
  const off_t size = S_ISBLK(status.st_mode) ? lseek(fd.get(), 0, SEEK_END) : status.st_size;
  const auto size_bytes = static_cast<std::uint64_t>(std::max<off_t>(size, 0));
  if (size_bytes < block_bytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: has {} bytes, a block is {}; name a larger file or a smaller "
                            "--block-size",
                            printable(path), size_bytes, kib(block_bytes)));
  }
  return {path, size_bytes / block_bytes};
}

std::vector<IoFile> files_below(const std::string& folder, std::size_t block_bytes) {
  std::vector<std::pair<std::uint64_t, std::string>> found;
  std::error_code error;
  const auto options = fs::directory_options::skip_permission_denied;
  fs::recursive_directory_iterator entries(folder, options, error);
  for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
    std::error_code unknown;  // A file that goes away meanwhile is none.
    if (!entries->is_regular_file(unknown)) continue;
    const std::uint64_t size_bytes = entries->file_size(unknown);
    if (!unknown && size_bytes >= block_bytes) found.emplace_back(size_bytes, entries->path());
  }
  if (error) raise(storage::open_failure(folder, "opendir", error.value()));
  if (found.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: holds no file of at least {}; name another folder or a smaller "
                            "--block-size",
                            printable(folder), kib(block_bytes)));
  }
  std::sort(found.begin(), found.end(), std::greater());
  found.resize(std::min(found.size(), kMaxFolderFiles));
  std::vector<IoFile> files;
  files.reserve(found.size());
  for (const auto& [size_bytes, path] : found) files.push_back(file_of(path, block_bytes));
  return files;
}

}  // namespace

std::vector<IoFile> collect_files(const std::vector<std::string>& paths, std::size_t block_bytes,
                                  std::uint64_t limit_bytes) {
  std::vector<IoFile> files;
  for (const std::string& path : paths) {
    std::error_code unknown;  // Then opening it says why.
    if (fs::is_directory(path, unknown)) {
      for (IoFile& file : files_below(path, block_bytes)) files.push_back(std::move(file));
    } else {
      files.push_back(file_of(path, block_bytes));
    }
  }
  std::uint64_t room = std::max<std::uint64_t>(1, limit_bytes / block_bytes);
  for (IoFile& file : files) {
    file.block_count = std::min(file.block_count, room);
    room -= file.block_count;
  }
  std::erase_if(files, [](const IoFile& file) { return file.block_count == 0; });
  return files;
}

}  // namespace feedrace::diagnose
