// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "feedrace/backend.h"
#include "feedrace/stats.h"

namespace feedrace::pipeline {

/// Bytes by the path that they took, and latencies, of all reads of a loader. Thread-safe.
class ReadCounters {
 public:
  void record(const storage::Completion& completion) {
    if (!completion.bytes_read) return;
    std::lock_guard lock(mutex_);
    ++reads_;
    bytes_by_path_[static_cast<std::size_t>(completion.path)] += *completion.bytes_read;
    latency_.record(completion.latency_ns);
  }

  void copy_to(Stats& stats) const {
    std::lock_guard lock(mutex_);
    stats.reads = reads_;
    stats.bytes_by_path = bytes_by_path_;
    stats.read_latency = latency_;
  }

 private:
  mutable std::mutex mutex_;
  std::uint64_t reads_ = 0;                                // Guarded by mutex_.
  std::array<std::uint64_t, kPathCount> bytes_by_path_{};  // Guarded by mutex_.
  LatencyHistogram latency_;                               // Guarded by mutex_.
};

/// Sentences for the statistics, each once, the first `kKept` of them: a set of a million odd
/// samples must not fill the memory with complaints. Thread-safe.
class SentenceLog {
 public:
  static constexpr std::size_t kKept = 16;

  void add(const std::string& sentence) {
    std::lock_guard lock(mutex_);
    const bool is_known =
        std::find(sentences_.begin(), sentences_.end(), sentence) != sentences_.end();
    if (!is_known && sentences_.size() < kKept) sentences_.push_back(sentence);
  }

  std::vector<std::string> copy() const {
    std::lock_guard lock(mutex_);
    return sentences_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> sentences_;  // Guarded by mutex_.
};

}  // namespace feedrace::pipeline
