// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace feedrace::pipeline {

/// Pictures of a loader whose crop index was used, or could not be. Thread-safe.
struct CropCounters {
  std::atomic<std::uint64_t> used = 0;
  std::atomic<std::uint64_t> refused = 0;

  /// The sentence about the first picture of its kind, so that many are counted in one line.
  template <typename Say>
  std::string sentence(const std::string& kind, const Say& say) {
    std::lock_guard lock(mutex_);
    const auto found = sentences_.find(kind);
    return found != sentences_.end() ? found->second
                                     : sentences_.emplace(kind, say()).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> sentences_;  // Guarded by mutex_.
};

}  // namespace feedrace::pipeline
