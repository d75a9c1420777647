// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "feedrace/cuda/batch_upload.h"
#include "feedrace/error.h"
#include "feedrace/order/epoch_order.h"
#include "feedrace/pipeline/batch_slot.h"
#include "feedrace/watch/trace_events.h"

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
  /// Its place on a device: from the begin, where images come there by another way than `slot`;
  /// else since the device's stage.
  std::shared_ptr<cuda::BatchUpload::Slot> on_device;
  std::atomic<std::size_t> remaining = 0;  ///< Places not filled yet.
  std::mutex mutex;
  std::vector<BadSample> bad_samples;   ///< Guarded by mutex; the consumer reads it when done.
  std::vector<FieldColumn> fields;      ///< A place each; written as the slot is.
  std::vector<std::string> complaints;  ///< Guarded likewise. About samples delivered all the same.
  bool fatal = false;                   ///< Guarded likewise. The consumer is to throw.

  /// As a trace names it.
  std::uint64_t trace_id() const { return watch::batch_id(order->epoch(), order->step_of(number)); }
};

/// Keeps the batches that are being made or ready, in the order of delivery, at most `window` of
/// them. Readers open batches, decode threads finish places, one consumer takes.
///
/// Readers of several devices walk the same batches, each for its own samples: whoever comes first
/// opens one, the others find it. Batches count from 0 at the start of the run (`serial`).
class Assembly {
 public:
  /// Gives each batch that is opened its `on_device`.
  using TakeOnDevice = std::function<std::shared_ptr<cuda::BatchUpload::Slot>()>;
  /// `fields`: names of those that come along with the images.
  Assembly(std::shared_ptr<SlotPool> slots, std::size_t window,
           std::vector<std::string> fields = {}, TakeOnDevice take_on_device = {})
      : slots_(std::move(slots)),
        window_(window),
        fields_(std::move(fields)),
        take_on_device_(std::move(take_on_device)) {}

  struct Opened {
    /// kTaken: its samples, all of other readers, are read and the consumer has it.
    enum class Status { kOpen, kTaken, kNoRoom } status = Status::kNoRoom;
    std::shared_ptr<PendingBatch> batch;  ///< When `kOpen`.
  };
  /// Called on the consumer's thread when a batch is taken and a `try_open` had found no room since
  /// the last time: a reader that waits for its storage must not find out with the next read that
  /// comes, which may be long. To be set before readers run; throws nothing.
  void on_room(std::function<void()> tell) { tell_room_ = std::move(tell); }

  /// Batch `serial`, which is batch `number` of `order`; the caller has asked for those before it.
  /// `try_open` never waits; `open` waits for room, and gives `kNoRoom` once `stop` is requested.
  Opened try_open(std::uint64_t serial, const std::shared_ptr<const order::EpochOrder>& order,
                  std::uint64_t number);
  Opened open(std::uint64_t serial, const std::shared_ptr<const order::EpochOrder>& order,
              std::uint64_t number, const std::stop_token& stop);

  /// The number of batches that were opened so far.
  std::uint64_t opened_count() const;
  /// Waits until batch `serial` is open, or `stop` is requested.
  void await_opened(std::uint64_t serial, const std::stop_token& stop);

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
  /// Batches that are full and not taken yet.
  std::size_t ready_count() const;

 private:
  std::optional<Opened> find_locked(std::uint64_t serial) const;
  Opened admit(std::uint64_t serial, const std::shared_ptr<const order::EpochOrder>& order,
               std::uint64_t number, std::shared_ptr<BatchSlot> slot);

  const std::shared_ptr<SlotPool> slots_;
  const std::size_t window_;
  const std::vector<std::string> fields_;
  const TakeOnDevice take_on_device_;
  std::function<void()> tell_room_;
  mutable std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::shared_ptr<PendingBatch>> pending_;  // Guarded by mutex_.
  bool wants_room_ = false;                            // Guarded by mutex_. A `try_open` failed.
  bool is_opening_ = false;                            // Guarded by mutex_. A reader in `open`.
  std::uint64_t first_serial_ = 0;                     // Guarded by mutex_. Of `pending_`.
};

}  // namespace feedrace::pipeline
