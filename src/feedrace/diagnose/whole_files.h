// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "feedrace/diagnose/io_run.h"
#include "feedrace/error.h"
#include "feedrace/storage/backends.h"

namespace feedrace::diagnose {

/// Small files that are opened, read whole and closed, as a loader does with a folder of images.
struct FilesJob {
  std::vector<std::string> paths;
  std::uint64_t size_bytes = 0;      ///< Of all of them.
  std::uint64_t max_file_bytes = 0;  ///< Of the largest.
  std::size_t queue_depth = 32;
  std::size_t thread_count = 8;  ///< Of the ways that block.
  std::uint64_t seed = 1;        ///< Of the random order.
};

/// The regular files below `folders` in random order, up to `limit_count`; empty files and those
/// above 16 MiB are left out. Throws Error kNotFound, kIo, kInvalidArgument (none).
FilesJob collect_whole_files(const std::vector<std::string>& folders, std::size_t limit_count);

/// A way to read them.
struct FilesWay {
  std::string name;
  storage::Engine engine = storage::Engine::kThreads;
  storage::Access access = storage::Access::kPageCache;
};
/// "threads", "threads+direct", "uring", "uring+direct".
std::vector<FilesWay> files_ways();

/// Drops the files' pages (`is_cold`) or fills them, then reads each file once. With `checks`,
/// first compares some with what pread gives. Failures: kCorruptData where they differ;
/// kUnsupported, also where bytes took another path than the way's; kIo.
Result<IoRun> measure_files(const FilesWay& way, const FilesJob& job, bool is_cold, bool checks);

}  // namespace feedrace::diagnose
