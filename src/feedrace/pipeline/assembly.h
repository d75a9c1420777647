// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/order/epoch_order.h"
#include "feedrace/pipeline/batch_slot.h"

namespace feedrace::pipeline {

/// What went wrong with the sample at one place of a batch.
struct BadSample {
  std::size_t index = 0;
  Failure failure;
};

/// A batch in the making. Its places are filled by decode threads in any order.
struct PendingBatch {
  std::shared_ptr<const order::EpochOrder> order;
  std::uint64_t number = 0;  ///< In `order`.
  std::size_t size = 0;      ///< Places in use.
  std::shared_ptr<BatchSlot> slot;
  std::atomic<std::size_t> remaining = 0;  ///< Places not filled yet.
  std::mutex mutex;
  std::vector<BadSample> bad_samples;   ///< Guarded by mutex; the consumer reads it when done.
  std::vector<std::string> complaints;  ///< Guarded likewise. About samples delivered all the same.
  bool fatal = false;                   ///< Guarded likewise. The consumer is to throw.
};

/// Keeps the batches that are being made or ready, in the order of delivery, at most `window` of
/// them. One reader thread opens batches, decode threads finish places, one consumer takes.
class Assembly {
 public:
  Assembly(std::shared_ptr<SlotPool> slots, std::size_t window)
      : slots_(std::move(slots)), window_(window) {}

  /// Opens the next batch. `try_open` never waits and gives nothing when window or slots are full;
  /// `open` waits and gives nothing once `stop` is requested.
  std::shared_ptr<PendingBatch> try_open(const std::shared_ptr<const order::EpochOrder>& order,
                                         std::uint64_t number);
  std::shared_ptr<PendingBatch> open(const std::shared_ptr<const order::EpochOrder>& order,
                                     std::uint64_t number, const std::stop_token& stop);

  /// One place of `batch` is filled.
  void finish_place(PendingBatch& batch);

  enum class TakeStatus { kTaken, kStopped, kTimedOut };
  struct Taken {
    TakeStatus status = TakeStatus::kTimedOut;
    std::shared_ptr<PendingBatch> batch;
  };
  /// Waits until the first batch is full and takes it out.
  Taken take(const std::stop_token& stop, std::chrono::steady_clock::time_point deadline);

  std::size_t pending_count() const;

 private:
  std::shared_ptr<PendingBatch> admit(const std::shared_ptr<const order::EpochOrder>& order,
                                      std::uint64_t number, std::shared_ptr<BatchSlot> slot);

  const std::shared_ptr<SlotPool> slots_;
  const std::size_t window_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<PendingBatch>> pending_;  // Guarded by mutex_.
};

}  // namespace feedrace::pipeline
