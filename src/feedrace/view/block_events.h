// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "feedrace/stats.h"

namespace feedrace::view {

/// Latencies of reads by block devices, from what the kernel's trace says of them: from the moment
/// when a request goes to the device to its completion, of all processes. Not thread-safe.
class BlockEvents {
 public:
  /// A line of `trace_pipe`. Others than those of block_rq_issue and block_rq_complete are skipped;
  /// a completion whose request was not seen, as at the begin, too.
  void add(std::string_view line);

  /// By device, "253:0", since the last reset.
  const std::map<std::string, LatencyHistogram>& latencies() const noexcept { return latencies_; }
  /// Events that found no room in the kernel's buffer, or ours.
  std::uint64_t lost() const noexcept { return lost_; }
  void reset();

 private:
  using Request = std::pair<std::string, std::uint64_t>;  // Device and first sector.

  std::map<std::string, LatencyHistogram> latencies_;
  std::map<Request, std::uint64_t> issued_ns_;
  std::uint64_t lost_ = 0;
};

}  // namespace feedrace::view
