// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "feedrace/backend.h"
#include "feedrace/storage/access.h"
#include "feedrace/storage/fixed_queue.h"

namespace feedrace::storage {

/// Blocking reads on a few threads of its own: "direct" with O_DIRECT, else "buffered". Works
/// wherever Linux does: the fallback of every other back end, and the reference that they are
/// compared with.
class ThreadBackend final : public Backend {
 public:
  static constexpr std::size_t kMaxDefaultThreads = 8;

  /// `thread_count` 0 means min(queue_depth, 8). `queue_depth` is at least 1. Throws Error kIo when
  /// no thread can be started.
  explicit ThreadBackend(std::size_t queue_depth, std::size_t thread_count = 0,
                         AccessOptions access = {});
  ~ThreadBackend() override;

  std::string_view name() const noexcept override {
    return table_.wanted() == Access::kDirect ? "direct" : "buffered";
  }
  Limits limits() const noexcept override;
  Result<void> register_memory(std::span<std::byte> memory) override;
  Result<std::unique_ptr<File>> open(std::string_view uri) override;
  std::size_t submit(std::span<const ReadRequest> requests) noexcept override;
  std::size_t wait(std::span<Completion> out, std::size_t min_count) noexcept override;
  void cancel_all() noexcept override;
  void interrupt() noexcept override;
  std::uint64_t system_calls() const noexcept override { return system_calls_; }

 private:
  struct Job {
    ReadRequest request;
    std::uint64_t start_ns = 0;
    std::uint64_t cancellations = 0;  // As many as there had been when it was submitted.
  };

  static constexpr std::size_t kNobodyWaits = ~std::size_t{0};

  void start_threads(std::size_t count);
  void stop_threads() noexcept;
  void serve() noexcept;
  Completion read(const Job& job) noexcept;

  const std::size_t queue_depth_;
  AccessTable table_;
  std::atomic<std::uint64_t> system_calls_{0};
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
