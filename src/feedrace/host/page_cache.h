// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "feedrace/error.h"

namespace feedrace::host {

/// How much of a stretch of a file the page cache holds. In whole pages: the last one of a file
/// counts in full.
struct Residency {
  std::uint64_t cached_bytes = 0;
  std::uint64_t dirty_bytes = 0;  ///< Of those, not written yet: no drop takes them away.
};

/// By cachestat(2). `size_bytes` 0: to the end. Any thread. Failure: kUnsupported with the reason:
/// a kernel before 6.5, a file that the caller neither owns nor may write, a file system without,
/// such as overlay. There is no fallback, as mincore(2) calls such files resident whatever is true.
Result<Residency> residency(int fd, std::uint64_t offset_bytes, std::uint64_t size_bytes);

/// Lets go of cached pages that are clean and that nobody has mapped. `size_bytes` 0: to the end.
/// Failure: kIo.
Result<void> drop_pages(int fd, std::uint64_t offset_bytes, std::uint64_t size_bytes);

}  // namespace feedrace::host
