// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/error.h"

namespace feedrace::host {

struct WarmFile {
  std::string path;
  std::uint64_t size_bytes = 0;
};

/// How reading into the page cache went.
struct WarmOutcome {
  std::uint64_t read_bytes = 0;    ///< That are, or were, in the page cache.
  std::uint64_t failed_files = 0;  ///< Could not be read, or not to their end.
  std::optional<Failure> failure;  ///< One of theirs.
};

/// Brings files into the page cache, in order, up to a limit.
///
/// The kernel is asked to read ahead, and each stretch is confirmed some MiB later: a byte of every
/// 128 KiB is read, which waits for the disk, and cachestat(2) must count all of it. What fails
/// that (no read-ahead on that file system, a kernel that does not tell) is read through a buffer.
/// Measured on a virtual disk, that takes half of the CPU time of reading all through a buffer, and
/// 0.7 of the time for large files, 0.3 to 0.6 of it for small ones.
class Warming {
 public:
  /// Called on the thread that waits, about ten times a second, with the bytes that are done.
  using OnProgress = std::function<void(std::uint64_t done_bytes)>;

  Warming(std::vector<WarmFile> files, std::uint64_t limit_bytes);

  std::uint64_t total_bytes() const noexcept { return total_bytes_; }
  /// What the limit leaves of it: whole files and, of the last, its beginning.
  std::uint64_t planned_bytes() const noexcept { return planned_bytes_; }
  /// Files of which at least a part is planned; the first so many of the list.
  std::size_t planned_files() const noexcept { return files_.size(); }
  std::size_t left_out_files() const noexcept { return left_out_files_; }

  /// Reads what is planned on `thread_count` threads. A file that can't be read is counted, and the
  /// others are read all the same.
  WarmOutcome read(std::size_t thread_count, const OnProgress& on_progress = {}) const;

  /// How many of the planned bytes are in the page cache now; reads nothing. A file that can't be
  /// opened has none. Failure: kUnsupported, where the kernel does not tell.
  Result<std::uint64_t> cached_bytes(std::size_t thread_count,
                                     const OnProgress& on_progress = {}) const;

 private:
  std::vector<WarmFile> files_;  // The planned ones; the last one cut to what is planned of it.
  std::uint64_t total_bytes_ = 0;
  std::uint64_t planned_bytes_ = 0;
  std::size_t left_out_files_ = 0;
};

}  // namespace feedrace::host
