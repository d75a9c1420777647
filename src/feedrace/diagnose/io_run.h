// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "feedrace/backend.h"
#include "feedrace/diagnose/io_job.h"
#include "feedrace/error.h"
#include "feedrace/stats.h"

namespace feedrace::diagnose {

/// What a row's reads came to; threads count for themselves and are added up.
struct ReadCounts {
  std::uint64_t reads = 0;
  std::uint64_t bytes = 0;
  std::uint64_t copied_bytes = 0;  ///< Counted where they are copied, in the kernel and here.
  std::uint64_t device_copied_bytes = 0;  ///< By a GPU's copy engine, out of the host's memory.
  std::uint64_t system_calls = 0;
  std::array<std::uint64_t, kPathCount> bytes_by_path{};  ///< Of those that say it.
  LatencyHistogram latency;

  void add(const ReadCounts& other) noexcept;
  /// A read of a back end that did not fail.
  void add(const storage::Completion& done) noexcept;
};

/// A timed run.
struct IoRun {
  ReadCounts counts;
  double seconds = 0;      ///< From the first submission to the last completion.
  double cpu_seconds = 0;  ///< Of the process: user and system, the kernel's threads for it too.
  std::uint64_t context_switches = 0;  ///< Of all threads of the process.
};

/// When a run ends: at the first read behind either.
struct RunLimits {
  double seconds = 2;
  std::uint64_t block_count = ~std::uint64_t{0};
};

/// A way to read, ready to go: files are open, memory is touched and registered.
class ReadPath {
 public:
  virtual ~ReadPath() = default;

  /// Reads the blocks at positions 0 to `count` - 1 of `order` and compares each with what pread
  /// gives. Failures: kCorruptData where they differ, kUnsupported, kIo.
  virtual Result<void> check(const BlockOrder& order, std::uint64_t count) = 0;

  /// Reads as fast as it goes. Failures: kUnsupported, kIo.
  virtual Result<ReadCounts> read(const BlockOrder& order, const RunLimits& limits) = 0;

  /// Compares what `read` has left in a GPU's memory with what pread gives. Failures: as `check`.
  virtual Result<void> check_what_is_left() { return {}; }
};

/// Runs `read` and takes the time and the CPU.
Result<IoRun> run_timed(const std::function<Result<ReadCounts>()>& read);

/// Compares a block with what pread gives. Failures: kCorruptData, kIo.
Result<void> compare_with_pread(const std::string& path, std::uint64_t offset_bytes,
                                std::span<const std::byte> block);

}  // namespace feedrace::diagnose
