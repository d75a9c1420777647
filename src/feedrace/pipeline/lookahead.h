// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stop_token>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/format.h"
#include "feedrace/order/epoch_order.h"
#include "feedrace/pipeline/assembly.h"

namespace feedrace::pipeline {

/// Bytes that have arrived for a sample before it was due.
struct HeldBytes {
  Extent extent;                  ///< Null: nothing is held.
  std::uint64_t begin_bytes = 0;  ///< Of the extent, in the shard.
  std::size_t bytes_read = 0;
};

/// A place in a batch, and the sample that belongs there.
struct Seat {
  std::uint64_t ticket = 0;  ///< Counts this reader's seats in the order in which they are due.
  std::uint64_t serial = 0;  ///< Of its batch, since the run began.
  std::size_t index = 0;     ///< In its batch.
  order::Pick pick;
  formats::Place place;
  std::shared_ptr<PendingBatch> batch;  ///< Set once it is due: its batch is open.
  bool is_read = false;                 ///< A read that serves it is on its way, or has come.
  bool is_alone = false;                ///< No other may share its read: one did, and it failed.
  HeldBytes held;
};

/// Walks the order, epoch after epoch, for the samples of one device, and knows which will be due
/// next: seats are due in order, as their batches are opened, and up to `horizon` of them are known
/// ahead. One thread.
class Lookahead {
 public:
  struct Options {
    std::shared_ptr<const order::SampleOrder> order;
    order::SplitOptions split;
    std::uint64_t first_epoch = 0;
    std::uint64_t first_position = 0;  ///< In the first epoch.
    std::size_t horizon = 1;           ///< Seats known ahead of the one that is due, at least 1.
    /// Whether a sample is this reader's; empty: all are.
    std::function<bool(std::uint64_t sample)> is_mine;
  };
  /// Told of each seat as it comes within the horizon.
  using Noticed = std::function<void(const Seat&)>;

  Lookahead(const formats::Dataset& dataset, Assembly& assembly, Options options, Noticed noticed);

  /// The next seat, now due; null when its batch can't be opened now, or `stop` is requested.
  Seat* next_due(const std::stop_token& stop, bool may_wait);
  /// A seat that has not been finished.
  Seat& seat(std::uint64_t ticket) {
    return *seats_[static_cast<std::size_t>(ticket - first_ticket_)];
  }
  /// The seat is served; it is gone.
  void finish(std::uint64_t ticket);
  /// Seats with a smaller ticket are due.
  std::uint64_t due_end() const noexcept { return due_end_; }

 private:
  /// Batch after batch, over the ends of epochs.
  struct Cursor {
    std::shared_ptr<const order::EpochOrder> order;
    std::uint64_t number = 0;  ///< In `order`.
    std::uint64_t serial = 0;
  };
  void advance(Cursor& cursor) const;
  void look_ahead();
  bool has_next() const noexcept { return first_ticket_ + seats_.size() > due_end_; }
  Assembly::Opened open_batch(std::uint64_t serial, const std::stop_token& stop, bool may_wait);

  const formats::Dataset& dataset_;
  Assembly& assembly_;
  const Options options_;
  const Noticed noticed_;
  Cursor ahead_;
  std::size_t ahead_index_ = 0;
  Cursor open_;                          // The first batch that was not asked for yet.
  std::shared_ptr<PendingBatch> batch_;  // The last one that was opened.
  std::uint64_t batch_serial_ = ~std::uint64_t{0};
  std::deque<std::unique_ptr<Seat>> seats_;  // Null: finished.
  std::uint64_t first_ticket_ = 0;           // Of `seats_`.
  std::uint64_t due_end_ = 0;
};

}  // namespace feedrace::pipeline
