// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "feedrace/stats.h"

namespace feedrace::storage {

/// Counts what was wanted and could not be had, by sentence. The back ends of a loader share one.
/// Thread-safe; the counters live as long as the log.
class FallbackLog {
 public:
  using Counter = std::atomic<std::uint64_t>;

  void add(const std::string& sentence, std::uint64_t count = 1) { counter(sentence) += count; }

  /// For what may happen at each read: looked up once, then counted without a lock.
  Counter& counter(const std::string& sentence) {
    std::lock_guard lock(mutex_);
    for (Line& line : lines_) {
      if (line.sentence == sentence) return line.count;
    }
    // A set on a thousand mounts must not fill the memory with sentences.
    if (lines_.size() >= kMaxSentences) return others_;
    Line& line = lines_.emplace_back();
    line.sentence = sentence;
    return line.count;
  }

  /// What was counted at least once, in the order of the first look-up.
  std::vector<FallbackCount> counts() const {
    std::lock_guard lock(mutex_);
    std::vector<FallbackCount> counts;
    for (const Line& line : lines_) {
      if (line.count > 0) counts.push_back({line.sentence, line.count});
    }
    if (others_ > 0) counts.push_back({"others of more than 64 kinds", others_});
    return counts;
  }

 private:
  static constexpr std::size_t kMaxSentences = 64;
  struct Line {
    std::string sentence;
    Counter count{0};
  };

  mutable std::mutex mutex_;
  std::deque<Line> lines_;  // Guarded by mutex_, but for the counts. Addresses stay.
  Counter others_{0};
};

}  // namespace feedrace::storage
