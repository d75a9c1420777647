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

/// RWF_DONTCACHE, Linux 6.14; not in the headers of Debian 12.
constexpr int kUncachedFlag = 0x80;

FileDescriptor open_retrying(const char* path, int flags) noexcept {
  int fd = -1;
  do {
    fd = openat(AT_FDCWD, path, flags);
  } while (fd < 0 && errno == EINTR);
  return FileDescriptor(fd);
}

/// Adds to an open file how its file system is read, and a descriptor with O_DIRECT where that is
/// the way.
void add_access(OpenFile& open, const char* path, const struct stat& info, AccessTable& table) {
  const bool is_device = S_ISBLK(info.st_mode);
  // A FIFO has no such ways, and opening it once more would wait for a writer.
  if (!is_device && !S_ISREG(info.st_mode)) return;
  // What the kernel reads ahead by itself would be left behind: nobody gives it up.
  posix_fadvise(open.cached.get(), 0, 0, POSIX_FADV_RANDOM);
  open.access = table.of_device(is_device ? info.st_rdev : info.st_dev, path);
  if (!open.access->is_direct()) return;
  FileDescriptor direct = open_retrying(path, O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY);
  struct stat other{};
  // The path may lead to another file by now: then this one is read through the page cache.
  const bool is_same = direct && fstat(direct.get(), &other) == 0 && other.st_ino == info.st_ino &&
                       other.st_dev == info.st_dev;
  if (is_same) {
    open.direct = std::move(direct);
  } else if (!direct && errno == EINVAL) {
    open.access->direct_failed(errno);
  }
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

Result<Route> OpenFile::route(std::string_view name, std::uint64_t offset_bytes,
                              std::span<const std::byte> destination, bool is_rest) const noexcept {
  if (!access) return Route{cached.get(), Path::kPageCache, 0, false};
  if (direct && access->is_direct()) {
    const std::uint64_t mask = access->alignment_bytes() - 1;
    const auto address = reinterpret_cast<std::uintptr_t>(destination.data());
    const bool is_aligned = ((offset_bytes | destination.size() | address) & mask) == 0;
    // An empty read reads nothing on any path.
    if (is_aligned || !cached) return Route{direct.get(), Path::kDirect, 0, false};
  }
  const int fd = cached.get();
  if (access->is_direct() && destination.empty()) return Route{fd, Path::kDirect, 0, false};
  if (const auto reason = access->count_fallback(); reason && !is_rest) {
    return named_failure(ErrorCode::kUnsupported, name, *reason + " (fallback=error refuses that)");
  }
  if (access->is_uncached()) return Route{fd, Path::kUncached, kUncachedFlag, false};
  return access->drops_pages() ? Route{fd, Path::kUncached, 0, true}
                               : Route{fd, Path::kPageCache, 0, false};
}

std::shared_ptr<FileSystemAccess> direct_whole(const char* path,
                                               std::span<const std::byte> destination,
                                               AccessTable& table) {
  if (table.wanted() != Access::kDirect) return nullptr;
  auto access = table.of_folder(path);
  if (!access || !access->is_direct() || !access->has_exact_ends()) return nullptr;
  const std::size_t mask = access->alignment_bytes() - 1;
  const auto address = reinterpret_cast<std::uintptr_t>(destination.data());
  const bool is_aligned = ((address | destination.size()) & mask) == 0 && !destination.empty();
  return is_aligned ? access : nullptr;
}

bool learn_from_failed_open(const char* path, FileSystemAccess& access, AccessTable& table,
                            int error_number) {
  if (error_number == ELOOP) {
    table.folder_has_links(path);
    return true;
  }
  if (error_number != EINVAL) return false;
  // A FIFO or socket has no O_DIRECT either, which says nothing of the file system.
  struct stat info{};
  if (lstat(path, &info) == 0 && S_ISREG(info.st_mode)) access.direct_failed(error_number);
  return true;
}

OpenFile open_whole(const char* path, std::span<const std::byte> destination, AccessTable& table) {
  OpenFile open;
  if (auto access = direct_whole(path, destination, table)) {
    open.direct = open_retrying(path, kDirectOpenFlags | O_NONBLOCK);
    if (open.direct) {
      open.access = std::move(access);
      return open;
    }
    if (!learn_from_failed_open(path, *access, table, errno)) return open;
  }
  open.cached = open_retrying(path, kOpenFlags);
  if (!open.cached || table.wanted() == Access::kPageCache) return open;
  struct stat info{};
  if (fstat(open.cached.get(), &info) != 0) return open;
  if (S_ISREG(info.st_mode)) open.size_bytes = static_cast<std::uint64_t>(info.st_size);
  add_access(open, path, info, table);
  return open;
}

void drop_pages(int fd, std::uint64_t offset_bytes, std::size_t size_bytes) noexcept {
  // Whole pages only are given up: those at the edges too, or one would stay behind each read.
  constexpr std::uint64_t kPageMask = 4095;
  const std::uint64_t begin = offset_bytes & ~kPageMask;
  const std::uint64_t end = (offset_bytes + size_bytes + kPageMask) & ~kPageMask;
  posix_fadvise(fd, static_cast<off_t>(begin), static_cast<off_t>(end - begin),
                POSIX_FADV_DONTNEED);
}

Result<std::unique_ptr<PosixFile>> open_posix(std::string_view uri, AccessTable& table) {
  std::string name(uri);
  if (name.find('\0') != std::string::npos) {
    return named_failure(ErrorCode::kNotFound, name,
                         "no path holds a 0 byte; check where the name comes from");
  }
  OpenFile open;
  open.cached = open_retrying(name.c_str(), kOpenFlags);
  const int fd = open.cached.get();
  if (fd < 0) return not_opened(name, errno);
  struct stat info{};
  if (fstat(fd, &info) != 0) return open_failure(name, "fstat", errno);
  if (S_ISDIR(info.st_mode)) return open_failure(name, "openat", EISDIR);
  if (!S_ISREG(info.st_mode) && !S_ISBLK(info.st_mode)) {
    return named_failure(ErrorCode::kIo, name,
                         "is neither a file nor a block device; give a regular file");
  }
  const off_t end = S_ISREG(info.st_mode) ? info.st_size : lseek(fd, 0, SEEK_END);
  if (end < 0) return open_failure(name, "lseek", errno);
  open.size_bytes = static_cast<std::uint64_t>(end);
  // Served its purpose. Left on, io_uring would refuse to wait on file systems without RWF_NOWAIT.
  if (fcntl(fd, F_SETFL, 0) != 0) return open_failure(name, "fcntl", errno);
  if (table.wanted() != Access::kPageCache) add_access(open, name.c_str(), info, table);
  return std::make_unique<PosixFile>(std::move(open), std::move(name));
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

bool is_other_way_left(const Route& route, const OpenFile& open, int error_number) {
  if (route.path == Path::kDirect && error_number == EINVAL && open.access && open.cached) {
    open.access->direct_failed(error_number);
    return true;
  }
  if (route.flags != 0 && (error_number == EOPNOTSUPP || error_number == EINVAL)) {
    open.access->uncached_failed();
    return true;
  }
  return false;
}

bool is_exact_end(const Route& route, const OpenFile& open, std::size_t bytes) noexcept {
  if (route.path != Path::kDirect || !open.access->has_exact_ends()) return false;
  return bytes % open.access->alignment_bytes() != 0 || !open.cached;
}

RangeRead read_range(const OpenFile& open, std::string_view name, std::uint64_t offset_bytes,
                     std::span<std::byte> destination, const StopSign& stop) noexcept {
  // Large enough to cost nothing, small enough that a cancelled read ends within milliseconds.
  constexpr std::size_t kStepBytes = std::size_t{8} << 20;
  RangeRead read;
  for (bool is_rest = false;; is_rest = read.bytes > 0) {
    const std::uint64_t offset = offset_bytes + read.bytes;
    const auto rest = destination.subspan(read.bytes);
    const auto part = rest.first(std::min(rest.size(), kStepBytes));
    const auto route = open.route(name, offset, part, is_rest);
    if (!route) {
      read.refused = route.error();
      return read;
    }
    if (!is_rest) read.path = route->path;
    iovec step{part.data(), part.size()};
    const ssize_t count = preadv2(route->fd, &step, 1, static_cast<off_t>(offset), route->flags);
    ++read.call_count;
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && is_other_way_left(*route, open, errno)) continue;
    if (count < 0) {
      read.error_number = errno;
      return read;
    }
    if (route->drops_pages) drop_pages(route->fd, offset, static_cast<std::size_t>(count));
    read.bytes += static_cast<std::size_t>(count);
    if (count == 0 || read.bytes == destination.size()) return read;
    if (offset_bytes + read.bytes == open.size_bytes) return read;
    const bool is_short = static_cast<std::size_t>(count) < part.size();
    if (is_short && is_exact_end(*route, open, static_cast<std::size_t>(count))) return read;
    if (stop.raised()) {
      read.error_number = ECANCELED;
      return read;
    }
  }
}

}  // namespace feedrace::storage
