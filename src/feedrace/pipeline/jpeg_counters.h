// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include "feedrace/stats.h"

namespace feedrace::pipeline {

/// JPEG pictures by who decoded them, of all threads of a loader. Thread-safe.
class JpegCounters {
 public:
  /// What a thread's decoder did between two looks at its counts.
  void add(const JpegStats& before, const JpegStats& after) noexcept {
    feedrace_ += after.feedrace - before.feedrace;
    libjpeg_turbo_ += after.libjpeg_turbo - before.libjpeg_turbo;
    damaged_ += after.damaged - before.damaged;
    if (after.kind != nullptr) kind_ = after.kind;
  }

  JpegStats snapshot() const noexcept { return {feedrace_, libjpeg_turbo_, damaged_, kind_}; }

 private:
  std::atomic<std::uint64_t> feedrace_ = 0;
  std::atomic<std::uint64_t> libjpeg_turbo_ = 0;
  std::atomic<std::uint64_t> damaged_ = 0;
  std::atomic<const char*> kind_ = nullptr;  // A text that lives for ever.
};

}  // namespace feedrace::pipeline
