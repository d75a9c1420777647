// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/diagnose/device_reads.h"
#include "feedrace/diagnose/io_job.h"
#include "feedrace/diagnose/io_run.h"
#include "feedrace/diagnose/plain_reads.h"
#include "feedrace/error.h"
#include "feedrace/stats.h"
#include "feedrace/storage/backends.h"

namespace feedrace::diagnose {

/// A way from the store to the destination: a line of the table.
struct IoPath {
  std::string name;
  std::string missing;                    ///< Why this build does not have it; empty when it has.
  std::optional<PlainRead> plain;         ///< Without a back end.
  std::optional<DeviceRead> device_read;  ///< Into the memory of `target`.
  DeviceTarget target;
  storage::Engine engine = storage::Engine::kThreads;
  storage::BackendOptions options;  ///< Queue depth and threads come from the job.
  bool registers_memory = false;
  Path takes = Path::kPageCache;  ///< Bytes that went another way are not this path's.

  /// Whether it matters what lies in the page cache.
  bool uses_page_cache() const noexcept { return takes != Path::kDirect && takes != Path::kGds; }
  bool has_threads() const noexcept { return engine == storage::Engine::kThreads; }
};

/// All, in the order of the table: the most copies and calls first, those into a GPU last.
std::vector<IoPath> io_paths(const DeviceTarget& target = {});

/// A path measured once, or why it was not.
struct IoRow {
  std::string reason;                        ///< Empty: measured.
  ErrorCode code = ErrorCode::kUnsupported;  ///< Of `reason`. Others than kUnsupported are errors.
  IoRun run;
  std::string way;  ///< That cuFile took: "direct", "compat", "mixed", or "unknown"; else empty.
  std::optional<std::uint64_t> pages_left;  ///< Of the files, in the page cache.
  std::string pages_reason;                 ///< Why they are not known.
};

/// Reads `job` by `path`: cold, out of files that were dropped from the page cache before, each
/// block at most once when it goes through that cache; or warm. With `checks`, first compares a
/// sample of the blocks with what pread gives: where they differ, the row has a reason with
/// kCorruptData. Uses the calling thread and those of the path.
IoRow measure_row(const IoPath& path, const IoJob& job, bool is_cold, bool checks);

/// The figures of a row, per 10^9 bytes where they are per GB.
struct IoFigures {
  double gb_per_second = 0;
  double reads_per_second = 0;
  double p50_us = 0;
  double p99_us = 0;
  double max_us = 0;
  double cpu_seconds_per_gb = 0;
  double context_switches_per_gb = 0;
  double system_calls_per_gb = 0;
  double copies_per_byte = 0;
  double device_copies_per_byte = 0;  ///< By the GPU, out of the host's memory.
  std::optional<double> pages_left;
};
/// Of a row that was measured.
IoFigures figures_of(const IoRow& row);
/// Each figure's own median, but the largest `max_us`. `rounds` is not empty.
IoFigures median_of(const std::vector<IoFigures>& rounds);

/// The figure `figure` of each round.
std::vector<double> values_of(const std::vector<IoFigures>& rounds, double IoFigures::* figure);

/// The value below which a share of `q` in [0, 1] lies, interpolated. `values` is not empty.
double quantile_of(std::vector<double> values, double q);

}  // namespace feedrace::diagnose
