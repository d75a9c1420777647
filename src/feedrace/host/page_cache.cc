// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "feedrace/core/text.h"

namespace feedrace::host {
namespace {

constexpr long kCachestatCall = 451;  // The C library's headers may be older than the kernel.

struct CachestatRange {
  std::uint64_t offset;
  std::uint64_t size;
};

/// In pages.
struct Cachestat {
  std::uint64_t cached;
  std::uint64_t dirty;
  std::uint64_t writeback;
  std::uint64_t evicted;
  std::uint64_t recently_evicted;
};

std::string reason_of(int error_number) {
  switch (error_number) {
    case ENOSYS:
      return "needs Linux 6.5, or a container that allows cachestat";
    case EPERM:
      return "only the owner of a file or who may write it is told; or the container forbids it";
    case EOPNOTSUPP:
      return "the file system does not tell";
    default:
      return errno_text("cachestat", error_number);
  }
}

/// Its pages belong to the file below, of which cachestat says nothing: 0, whatever is there.
bool is_overlay(int fd) {
  struct statfs volume{};
  return fstatfs(fd, &volume) == 0 && volume.f_type == OVERLAYFS_SUPER_MAGIC;
}

}  // namespace

Result<Residency> residency(int fd, std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  if (is_overlay(fd)) {
    return Failure{ErrorCode::kUnsupported,
                   "page cache: an overlay keeps its pages with the file below, which is not told"};
  }
  CachestatRange range = {offset_bytes, size_bytes};
  Cachestat pages{};
  if (syscall(kCachestatCall, fd, &range, &pages, 0) != 0) {
    return Failure{ErrorCode::kUnsupported, "page cache: " + reason_of(errno)};
  }
  const auto page_bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return Residency{pages.cached * page_bytes, (pages.dirty + pages.writeback) * page_bytes};
}

Result<void> drop_pages(int fd, std::uint64_t offset_bytes, std::uint64_t size_bytes) {
  const int error_number = posix_fadvise(fd, static_cast<off_t>(offset_bytes),
                                         static_cast<off_t>(size_bytes), POSIX_FADV_DONTNEED);
  if (error_number == 0) return {};
  return Failure{ErrorCode::kIo, errno_text("page cache: posix_fadvise", error_number)};
}

}  // namespace feedrace::host
