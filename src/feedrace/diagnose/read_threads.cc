// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/read_threads.h"

#include <optional>
#include <thread>
#include <vector>

#include "feedrace/storage/clock.h"

namespace feedrace::diagnose {
namespace {

struct Share {
  ReadCounts counts;
  std::optional<Failure> failure;
};

void read_share(std::size_t thread, std::size_t thread_count, std::size_t block_bytes,
                const BlockOrder& order, const RunLimits& limits, const ReadBlock& read,
                Share& share) noexcept {
  const std::uint64_t start_ns = storage::now_ns();
  const auto end_ns = start_ns + static_cast<std::uint64_t>(limits.seconds * 1e9);
  std::uint64_t now_ns = start_ns;
  for (std::uint64_t i = thread; i < limits.block_count && now_ns < end_ns; i += thread_count) {
    const auto done = caught([&] { return read(thread, order.at(i), share.counts); });
    if (!done) {
      share.failure = done.error();
      return;
    }
    const std::uint64_t done_ns = storage::now_ns();
    share.counts.latency.record(done_ns - now_ns);
    ++share.counts.reads;
    share.counts.bytes += block_bytes;
    now_ns = done_ns;
  }
}

}  // namespace

Result<ReadCounts> read_on_threads(std::size_t thread_count, std::size_t block_bytes,
                                   const BlockOrder& order, const RunLimits& limits,
                                   const ReadBlock& read) {
  std::vector<Share> shares(thread_count);
  {
    std::vector<std::jthread> threads;  // Joined at the end of the block.
    threads.reserve(thread_count);
    for (std::size_t i = 0; i < thread_count; ++i) {
      threads.emplace_back(
          [&, i] { read_share(i, thread_count, block_bytes, order, limits, read, shares[i]); });
    }
  }
  ReadCounts counts;
  for (const Share& share : shares) {
    if (share.failure) return *share.failure;
    counts.add(share.counts);
  }
  return counts;
}

}  // namespace feedrace::diagnose
