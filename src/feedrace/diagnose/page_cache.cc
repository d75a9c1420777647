// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/page_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/host/file_descriptor.h"
#include "feedrace/host/file_system.h"
#include "feedrace/host/page_cache.h"
#include "feedrace/storage/failures.h"

namespace feedrace::diagnose {
namespace {

using host::FileDescriptor;

Result<FileDescriptor> opened(const IoFile& file) {
  FileDescriptor fd(open(file.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return storage::open_failure(file.path, "open", errno);
  return fd;
}

}  // namespace

Result<std::uint64_t> cached_pages(const IoJob& job) {
  std::uint64_t pages = 0;
  for (const IoFile& file : job.files) {
    const auto fd = opened(file);
    if (!fd) return fd.error();
    const auto resident = host::residency(fd->get(), 0, file.block_count * job.block_bytes);
    if (!resident) {
      return Failure{resident.error().code,
                     fmt::format("{}: {}", printable(file.path), resident.error().message)};
    }
    pages += resident->cached_bytes / HostMemory::kPageBytes;
  }
  return pages;
}

Result<void> drop_pages(const IoJob& job) {
  for (const IoFile& file : job.files) {
    const auto facts = host::probe_file_system(file.path);
    if (facts && facts->is_in_memory) {
      return Failure{ErrorCode::kUnsupported,
                     facts->type + " keeps files in memory, never cold; name a file on a disk"};
    }
    const auto fd = opened(file);
    if (!fd) return fd.error();
    fdatasync(fd->get());  // Dirty pages would stay. Where it fails they do, which is found below.
    posix_fadvise(fd->get(), 0, 0, POSIX_FADV_DONTNEED);
  }
  // A few may come back by themselves, or wait in another core's list.
  const auto left = cached_pages(job);
  const std::uint64_t all = job.size_bytes() / HostMemory::kPageBytes;
  if (left && *left > 16 + all / 100) {
    return Failure{ErrorCode::kUnsupported,
                   fmt::format("{} of {} pages stay in the page cache; another program maps the "
                               "file or writes it",
                               *left, all)};
  }
  return {};
}

Result<void> fill_pages(const IoJob& job) {
  const auto available = available_memory_bytes();
  const auto cached = cached_pages(job);
  const std::uint64_t there = cached ? *cached * HostMemory::kPageBytes : 0;
  if (available && job.size_bytes() > there + *available / 2) {
    return Failure{ErrorCode::kUnsupported,
                   fmt::format("{} do not fit half of the free memory; --size {}M",
                               human_bytes(job.size_bytes()), (*available / 2) >> 20)};
  }
  std::vector<std::byte> buffer(std::size_t{1} << 20);
  for (const IoFile& file : job.files) {
    const auto fd = opened(file);
    if (!fd) return fd.error();
    const std::uint64_t end = file.block_count * job.block_bytes;
    for (std::uint64_t offset = 0; offset < end;) {
      const std::size_t size = std::min<std::uint64_t>(buffer.size(), end - offset);
      const ssize_t count = pread(fd->get(), buffer.data(), size, static_cast<off_t>(offset));
      if (count <= 0) return storage::read_failure(file.path, offset, size, "pread", errno);
      offset += static_cast<std::uint64_t>(count);
    }
  }
  return {};
}

}  // namespace feedrace::diagnose
