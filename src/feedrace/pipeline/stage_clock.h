// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "feedrace/stats.h"

namespace feedrace::pipeline {

using Clock = std::chrono::steady_clock;

inline std::uint64_t nanoseconds_since(Clock::time_point start) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start).count());
}

inline std::uint64_t nanoseconds_between(Clock::time_point start, Clock::time_point end) {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count());
}

/// CPU time of the calling thread.
inline std::uint64_t thread_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(now.tv_nsec);
}

/// Adds up what the threads of one stage do. Thread-safe; read at any time.
class StageClock {
 public:
  void add_busy(std::uint64_t ns) noexcept { busy_ns_.fetch_add(ns, std::memory_order_relaxed); }
  void add_wait(std::uint64_t ns) noexcept { wait_ns_.fetch_add(ns, std::memory_order_relaxed); }
  void add_cpu(std::uint64_t ns) noexcept { cpu_ns_.fetch_add(ns, std::memory_order_relaxed); }
  void add_items(std::uint64_t n) noexcept { items_.fetch_add(n, std::memory_order_relaxed); }

  StageStats snapshot(std::string name, std::size_t thread_count) const {
    StageStats stats;
    stats.name = std::move(name);
    stats.thread_count = thread_count;
    stats.busy_seconds = static_cast<double>(busy_ns_.load(std::memory_order_relaxed)) * 1e-9;
    stats.wait_seconds = static_cast<double>(wait_ns_.load(std::memory_order_relaxed)) * 1e-9;
    stats.cpu_seconds = static_cast<double>(cpu_ns_.load(std::memory_order_relaxed)) * 1e-9;
    stats.item_count = items_.load(std::memory_order_relaxed);
    return stats;
  }

 private:
  std::atomic<std::uint64_t> busy_ns_ = 0;
  std::atomic<std::uint64_t> wait_ns_ = 0;
  std::atomic<std::uint64_t> cpu_ns_ = 0;
  std::atomic<std::uint64_t> items_ = 0;
};

}  // namespace feedrace::pipeline
