// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

#include "feedrace/backend.h"
#include "feedrace/storage/fixed_queue.h"

namespace feedrace::storage {

/// What messages call a request: its file as the user wrote it, or its path.
std::string_view name_of(const ReadRequest& request) noexcept;

/// Says whether a read was cancelled: the count of cancellations moved on since then.
struct StopSign {
  const std::atomic<std::uint64_t>& cancellations;
  std::uint64_t seen;
  bool raised() const noexcept { return cancellations.load(std::memory_order_relaxed) != seen; }
};

/// Blocking reads on a few threads: what back ends of that kind have in common. `submit`, `wait`,
/// `cancel_all` and `interrupt` are as `Backend` has them.
class ReadThreads {
 public:
  /// Makes one read, on one of the threads; looks at `stop` as often as it can. All but the latency
  /// of the completion is its own.
  using Read = std::function<Completion(const ReadRequest& request, const StopSign& stop)>;

  static constexpr std::size_t kMaxDefaultThreads = 8;

  /// `thread_count` 0 means min(queue_depth, 8). `queue_depth` is at least 1; `name` is the back
  /// end's. `read` throws nothing. Throws Error kIo when no thread can be started.
  ReadThreads(std::string_view name, std::size_t queue_depth, std::size_t thread_count, Read read);
  /// Cancels, then waits.
  ~ReadThreads();
  ReadThreads(const ReadThreads&) = delete;
  ReadThreads& operator=(const ReadThreads&) = delete;

  std::size_t queue_depth() const noexcept { return queue_depth_; }
  std::size_t submit(std::span<const ReadRequest> requests) noexcept;
  std::size_t wait(std::span<Completion> out, std::size_t min_count) noexcept;
  void cancel_all() noexcept;
  void interrupt() noexcept;

 private:
  struct Job {
    ReadRequest request;
    std::uint64_t start_ns = 0;
    std::uint64_t cancellations = 0;  // As many as there had been when it was submitted.
  };

  static constexpr std::size_t kNobodyWaits = ~std::size_t{0};

  void start(std::string_view name, std::size_t count);
  void serve() noexcept;

  const std::size_t queue_depth_;
  const Read read_;
  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  FixedQueue<Job> queued_;             // Guarded by mutex_.
  FixedQueue<Completion> ready_;       // Guarded by mutex_.
  std::size_t wanted_ = kNobodyWaits;  // Guarded by mutex_. How many `wait()` waits for.
  std::size_t running_ = 0;            // Guarded by mutex_. Jobs that a thread has taken.
  bool interrupted_ = false;           // Guarded by mutex_.
  bool stopping_ = false;              // Guarded by mutex_.
  // Written under mutex_; running reads look at it without.
  std::atomic<std::uint64_t> cancellations_{0};
  std::vector<std::thread> threads_;
};

}  // namespace feedrace::storage
