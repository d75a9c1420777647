// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/io_run.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/host/file_descriptor.h"
#include "feedrace/storage/clock.h"
#include "feedrace/storage/failures.h"

namespace feedrace::diagnose {
namespace {

struct Usage {
  double cpu_seconds = 0;
  std::uint64_t context_switches = 0;
};

/// The kernel's threads of io_uring (SQPOLL and workers) belong to the process: they are in it.
Usage usage_of_process() noexcept {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return {seconds(usage.ru_utime) + seconds(usage.ru_stime),
          static_cast<std::uint64_t>(usage.ru_nvcsw + usage.ru_nivcsw)};
}

}  // namespace

void ReadCounts::add(const ReadCounts& other) noexcept {
  reads += other.reads;
  bytes += other.bytes;
  copied_bytes += other.copied_bytes;
  device_copied_bytes += other.device_copied_bytes;
  system_calls += other.system_calls;
  for (std::size_t i = 0; i < kPathCount; ++i) bytes_by_path[i] += other.bytes_by_path[i];
  latency.merge(other.latency);
}

void ReadCounts::add(const storage::Completion& done) noexcept {
  ++reads;
  bytes += *done.bytes_read;
  copied_bytes += copies_of(done.path) * *done.bytes_read;
  bytes_by_path[static_cast<std::size_t>(done.path)] += *done.bytes_read;
  latency.record(done.latency_ns);
}

Result<IoRun> run_timed(const std::function<Result<ReadCounts>()>& read) {
  const Usage before = usage_of_process();
  const std::uint64_t start_ns = storage::now_ns();
  auto counts = read();
  if (!counts) return counts.error();
  IoRun run;
  run.seconds = static_cast<double>(storage::now_ns() - start_ns) * 1e-9;
  const Usage after = usage_of_process();
  run.counts = *std::move(counts);
  run.cpu_seconds = after.cpu_seconds - before.cpu_seconds;
  run.context_switches = after.context_switches - before.context_switches;
  return run;
}

Result<void> compare_with_pread(const std::string& path, std::uint64_t offset_bytes,
                                std::span<const std::byte> block) {
  const host::FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return storage::open_failure(path, "open", errno);
  std::vector<std::byte> wanted(block.size());
  for (std::size_t done = 0; done < wanted.size();) {
    const ssize_t count = pread(fd.get(), wanted.data() + done, wanted.size() - done,
                                static_cast<off_t>(offset_bytes + done));
    if (count <= 0) {
      return storage::read_failure(path, offset_bytes, wanted.size(), "pread",
                                   count < 0 ? errno : EIO);
    }
    done += static_cast<std::size_t>(count);
  }
  if (std::memcmp(wanted.data(), block.data(), block.size()) == 0) return {};
  return Failure{ErrorCode::kCorruptData,
                 fmt::format("{}: the bytes at {} differ from those of pread; if nobody writes the "
                             "file now, this path is broken: use another back end",
                             printable(path), offset_bytes)};
}

}  // namespace feedrace::diagnose
