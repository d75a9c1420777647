// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace feedrace::formats {

/// Calls `work(i)` for every i in [0, count) on at most `thread_count` threads. Rethrows the first
/// exception on the caller's thread, after all threads have ended.
inline void parallel_for(std::size_t count, std::size_t thread_count,
                         const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  const auto run = [&] {
    try {
      for (std::size_t i = next++; i < count; i = next++) work(i);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!failure) failure = std::current_exception();
      next = count;  // The others finish what they have.
    }
  };
  {
    std::vector<std::jthread> threads;
    const std::size_t wanted = std::min(thread_count, count);
    bool has_room = true;  // No more threads to be had: those that there are do all of it.
    while (has_room && threads.size() + 1 < wanted) {
      try {
        threads.emplace_back(run);
      } catch (const std::system_error&) {
        has_room = false;
      }
    }
    run();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace feedrace::formats
