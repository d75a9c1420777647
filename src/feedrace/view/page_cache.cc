// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/page_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "feedrace/host/file_descriptor.h"
#include "feedrace/host/page_cache.h"

namespace feedrace::view {
namespace {

/// Pages that hold a part of the stretch; of an empty one, none.
std::uint64_t pages_of(std::uint64_t offset_bytes, std::uint64_t size_bytes,
                       std::uint64_t page_bytes) {
  if (size_bytes == 0) return 0;
  return (offset_bytes + size_bytes - 1) / page_bytes - offset_bytes / page_bytes + 1;
}

}  // namespace

Result<CachedShare> cached_share(std::span<const watch::SamplePlace> places) {
  const auto page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  std::uint64_t pages = 0;
  std::uint64_t cached_pages = 0;
  CachedShare found;
  for (const watch::SamplePlace& place : places) {
    // A FIFO in the place of a file would make an ordinary open wait.
    const host::FileDescriptor file(
        ::open(place.path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    struct stat facts{};
    if (file.get() < 0 || ::fstat(file.get(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    const auto end = static_cast<std::uint64_t>(facts.st_size);
    if (place.offset_bytes >= end) continue;
    const std::uint64_t rest = end - place.offset_bytes;
    const std::uint64_t size = place.size_bytes == 0 ? rest : std::min(rest, place.size_bytes);
    const auto held = host::residency(file.get(), place.offset_bytes, size);
    if (!held) return held.error();
    const std::uint64_t own = pages_of(place.offset_bytes, size, page_bytes);
    pages += own;
    cached_pages += std::min(own, held->cached_bytes / page_bytes);
    ++found.samples;
  }
  if (pages == 0) {
    return Failure{ErrorCode::kNotFound, "none of the files of its samples is there any more"};
  }
  found.share = static_cast<double>(cached_pages) / static_cast<double>(pages);
  return found;
}

}  // namespace feedrace::view
