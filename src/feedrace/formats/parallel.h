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

/// Calls `work(i)` for every i in [0, count) on at most `thread_count` threads. Rethrows the
/// exception of the lowest i that had one, on the caller's thread, after all threads have ended:
/// the same one whatever the number of threads.
inline void parallel_for(std::size_t count, std::size_t thread_count,
                         const std::function<void(std::size_t)>& work) {
  std::atomic<std::size_t> next = 0;
  std::mutex mutex;
  std::exception_ptr failure;
  std::size_t failed = count;
  const auto run = [&] {
    std::size_t i = next++;
    try {
      for (; i < count; i = next++) work(i);
    } catch (...) {
      std::lock_guard lock(mutex);
      if (i < failed) failure = std::current_exception();
      failed = std::min(failed, i);
      next = count;  // The others finish what they have, all that is below this one among it.
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
