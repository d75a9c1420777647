// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/io_paths.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "feedrace/diagnose/backend_reads.h"
#include "feedrace/diagnose/page_cache.h"
#include "feedrace/storage/fallback_log.h"

namespace feedrace::diagnose {
namespace {

using storage::Access;
using storage::Engine;

constexpr std::uint64_t kCheckedBlocks = 64;

IoPath plain_path(const char* name, PlainRead how) {
  IoPath path;
  path.name = name;
  path.plain = how;
  return path;
}

IoPath thread_path(const char* name, Access access, Path takes) {
  IoPath path;
  path.name = name;
  path.options.access = access;
  path.takes = takes;
  return path;
}

/// The barest ring; what a row adds is set by its maker.
IoPath ring_path(const char* name) {
  IoPath path;
  path.name = name;
  path.engine = Engine::kUring;
  path.takes = Path::kDirect;
  path.options.access = Access::kDirect;
  path.options.fixed_files = false;
  path.options.defer_taskrun = false;
  return path;
}

std::vector<IoPath> ring_paths() {
  std::vector<IoPath> paths;
  IoPath path = ring_path("uring");
  const auto add = [&](const char* name) {
    path.name = name;
    paths.push_back(path);
  };
  add("uring");
  path.registers_memory = true;
  add("uring+buffers");
  path.options.fixed_files = true;
  add("uring+files");
  path.options.defer_taskrun = true;
  add("uring+defer");
  path.options.defer_taskrun = false;  // The kernel takes either.
  path.options.sqpoll = true;
  add("uring+sqpoll");
  path.options.sqpoll = false;
  path.options.defer_taskrun = true;
  path.options.iopoll = true;
  add("uring+iopoll");
  path.options.iopoll = false;
  path.options.access = Access::kPageCache;
  path.takes = Path::kPageCache;
  add("uring buffered");
  return paths;
}

/// `log` hears of what the path is not but should be.
Result<std::unique_ptr<ReadPath>> make_reads(const IoPath& path, const IoJob& job,
                                             const std::shared_ptr<storage::FallbackLog>& log) {
  if (path.plain) return make_plain_reads(*path.plain, job);
  if (path.device_read == DeviceRead::kPageable) return make_pageable_reads(path.target, job);
  if (path.device_read == DeviceRead::kCuFile) return make_cufile_reads(path.target, job);
  storage::BackendOptions options = path.options;
  options.queue_depth = job.queue_depth;
  options.thread_count = job.thread_count;
  options.strict = true;
  options.log = log;
  auto backend = storage::create_backend(path.engine, options);
  if (!backend) return backend.error();
  if (path.device_read) return make_pinned_reads(*std::move(backend), path.target, job);
  return make_backend_reads(*std::move(backend), job, path.registers_memory);
}

/// The way that cuFile took, by its counts.
std::string way_of(const ReadCounts& counts) {
  const std::uint64_t direct = counts.bytes_by_path[static_cast<std::size_t>(Path::kGds)];
  const std::uint64_t compatible = counts.bytes_by_path[static_cast<std::size_t>(Path::kGdsCompat)];
  if (direct == counts.bytes) return "direct";
  if (compatible == counts.bytes) return "compat";
  return direct + compatible == counts.bytes ? "mixed" : "unknown";
}

bool has_backend(const IoPath& path) {
  return !path.plain && (!path.device_read || path.device_read == DeviceRead::kPinned);
}

/// Why the run was not this path's; empty when it was.
std::string detour_of(const IoPath& path, const ReadCounts& counts,
                      const storage::FallbackLog& log) {
  if (!has_backend(path)) return {};
  if (const auto fallbacks = log.counts(); !fallbacks.empty()) return fallbacks.front().sentence;
  for (std::size_t i = 0; i < kPathCount; ++i) {
    const auto way = static_cast<Path>(i);
    if (way == path.takes || counts.bytes_by_path[i] == 0) continue;
    return fmt::format(
        "{:.0f} % of the bytes took {} instead",
        100.0 * static_cast<double>(counts.bytes_by_path[i]) / static_cast<double>(counts.bytes),
        to_string(way));
  }
  return {};
}

Result<void> check(const IoPath& path, const IoJob& job) {
  const auto reads = make_reads(path, job, std::make_shared<storage::FallbackLog>());
  if (!reads) return reads.error();
  IoJob sample = job;
  sample.is_random = true;
  sample.seed = job.seed + 1;  // Not the blocks that are read first when it counts.
  const BlockOrder order(sample);
  return (*reads)->check(order, std::min(kCheckedBlocks, order.block_count()));
}

std::vector<IoPath> device_paths(const DeviceTarget& target) {
  std::vector<IoPath> paths;
  const auto add = [&](const char* name, DeviceRead how, Access access, Path takes) {
    IoPath path = thread_path(name, access, takes);
    path.device_read = how;
    path.target = target;
    if (!target.device) path.missing = target.missing;
    paths.push_back(std::move(path));
  };
  add("gpu pageable", DeviceRead::kPageable, Access::kPageCache, Path::kPageCache);
  add("gpu buffered", DeviceRead::kPinned, Access::kPageCache, Path::kPageCache);
  add("gpu direct", DeviceRead::kPinned, Access::kDirect, Path::kDirect);
  add("gpu uring", DeviceRead::kPinned, Access::kDirect, Path::kDirect);
  paths.back().engine = Engine::kUring;
  add("cufile", DeviceRead::kCuFile, Access::kDirect, Path::kGds);
  return paths;
}

IoRow refused(const Failure& failure) {
  IoRow row;
  row.reason = failure.message;
  row.code = failure.code;
  return row;
}

}  // namespace

std::vector<IoPath> io_paths(const DeviceTarget& target) {
  std::vector<IoPath> paths = {
      plain_path("read+copy", PlainRead::kReadAndCopy),
      plain_path("mmap", PlainRead::kMapped),
      thread_path("buffered", Access::kPageCache, Path::kPageCache),
      thread_path("uncached", Access::kUncached, Path::kUncached),
      thread_path("direct", Access::kDirect, Path::kDirect),
  };
  for (IoPath& path : ring_paths()) paths.push_back(std::move(path));
  for (IoPath& path : device_paths(target)) paths.push_back(std::move(path));
  return paths;
}

IoRow measure_row(const IoPath& path, const IoJob& job, bool is_cold, bool checks) {
  if (!path.missing.empty()) return refused({ErrorCode::kUnsupported, path.missing});
  const auto prepare = [&] { return is_cold ? drop_pages(job) : fill_pages(job); };
  if (const auto ready = prepare(); !ready) return refused(ready.error());
  if (checks) {
    if (const auto right = check(path, job); !right) return refused(right.error());
    if (const auto ready = prepare(); !ready) return refused(ready.error());
  }
  // Only now: an open mapping would have held its pages.
  const auto log = std::make_shared<storage::FallbackLog>();
  const auto reads = make_reads(path, job, log);
  if (!reads) return refused(reads.error());
  const BlockOrder order(job);
  RunLimits limits{job.seconds, ~std::uint64_t{0}};
  // A second pass would find what the first has left.
  if (is_cold && path.uses_page_cache()) limits.block_count = order.block_count();
  auto run = run_timed([&] { return (*reads)->read(order, limits); });
  if (!run) return refused(run.error());
  IoRow row;
  row.run = *std::move(run);
  if (path.device_read == DeviceRead::kCuFile) row.way = way_of(row.run.counts);
  row.reason = detour_of(path, row.run.counts, *log);
  if (const auto pages = cached_pages(job)) {
    row.pages_left = *pages;
  } else {
    row.pages_reason = pages.error().message;
  }
  // Behind the pages, as it reads the file through them.
  if (checks) {
    if (const auto right = (*reads)->check_what_is_left(); !right) return refused(right.error());
  }
  return row;
}

IoFigures figures_of(const IoRow& row) {
  const ReadCounts& counts = row.run.counts;
  const double gigabytes = static_cast<double>(counts.bytes) * 1e-9;
  const auto per_gb = [&](auto value) { return static_cast<double>(value) / gigabytes; };
  const auto quantile_us = [&](double q) {
    return static_cast<double>(counts.latency.quantile_ns(q)) * 1e-3;
  };
  IoFigures figures;
  figures.gb_per_second = gigabytes / row.run.seconds;
  figures.reads_per_second = static_cast<double>(counts.reads) / row.run.seconds;
  figures.p50_us = quantile_us(0.5);
  figures.p99_us = quantile_us(0.99);
  figures.max_us = static_cast<double>(counts.latency.max_ns()) * 1e-3;
  figures.cpu_seconds_per_gb = per_gb(row.run.cpu_seconds);
  figures.context_switches_per_gb = per_gb(row.run.context_switches);
  figures.system_calls_per_gb = per_gb(counts.system_calls);
  figures.copies_per_byte =
      static_cast<double>(counts.copied_bytes) / static_cast<double>(counts.bytes);
  figures.device_copies_per_byte =
      static_cast<double>(counts.device_copied_bytes) / static_cast<double>(counts.bytes);
  if (row.pages_left) figures.pages_left = static_cast<double>(*row.pages_left);
  return figures;
}

double quantile_of(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - std::floor(at)) * (values[above] - values[below]);
}

std::vector<double> values_of(const std::vector<IoFigures>& rounds, double IoFigures::* figure) {
  std::vector<double> values(rounds.size());
  std::transform(rounds.begin(), rounds.end(), values.begin(),
                 [figure](const IoFigures& round) { return round.*figure; });
  return values;
}

IoFigures median_of(const std::vector<IoFigures>& rounds) {
  const auto median = [&](double IoFigures::* figure) {
    return quantile_of(values_of(rounds, figure), 0.5);
  };
  IoFigures figures = rounds.front();  // Whether the pages are known does not change.
  for (const auto figure : {&IoFigures::gb_per_second, &IoFigures::reads_per_second,
                            &IoFigures::p50_us, &IoFigures::p99_us, &IoFigures::cpu_seconds_per_gb,
                            &IoFigures::context_switches_per_gb, &IoFigures::system_calls_per_gb,
                            &IoFigures::copies_per_byte, &IoFigures::device_copies_per_byte}) {
    figures.*figure = median(figure);
  }
  for (const IoFigures& round : rounds) {
    figures.max_us = std::max(figures.max_us, round.max_us);
    if (round.pages_left && figures.pages_left) {
      figures.pages_left = std::max(*figures.pages_left, *round.pages_left);
    }
  }
  return figures;
}

}  // namespace feedrace::diagnose
