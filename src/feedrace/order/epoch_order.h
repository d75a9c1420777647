// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "feedrace/order.h"
#include "feedrace/order/sample_order.h"

namespace feedrace::order {

/// How the positions of an epoch are dealt out.
struct SplitOptions {
  std::uint64_t batch_size = 1;  ///< Of one rank.
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  LastBatch last_batch = LastBatch::kDrop;

  std::uint64_t global_batch() const noexcept { return batch_size * world_size; }
};

/// How the positions from `start` to the end of an epoch fall into batches; the same on every rank.
struct Split {
  std::uint64_t steps = 0;            ///< Batches of each rank.
  std::uint64_t samples_a_rank = 0;   ///< Places in them, padding included.
  std::uint64_t last_batch_size = 0;  ///< Of each rank's last batch; 0 when there is none.
  std::uint64_t dropped = 0;          ///< Samples left out, of all ranks together.
  std::uint64_t padded = 0;           ///< Repeats, of all ranks together.
};

/// The split of `remaining` positions. No steps when too few are left. Throws Error
/// kInvalidArgument: a batch or world size of 0, a rank that is not below the world size, a global
/// batch above 2^62, and by kPartial a last batch that the ranks can't share evenly.
Split make_split(const SplitOptions& options, std::uint64_t remaining);

/// Throws Error kInvalidArgument unless a whole epoch of `samples` gives at least one batch; the
/// message says samples, ranks, batch size and what to change.
void require_batches(const SplitOptions& options, std::uint64_t samples);

/// One rank's batches of one epoch, from a position in it on: a pure function of (order, split,
/// epoch, start). Immutable, thread-safe, O(1) in samples. Batches count from 0 at `start`.
class EpochOrder {
 public:
  /// Throws Error kInvalidArgument: see `SetWalk::check` and `make_split`.
  EpochOrder(std::shared_ptr<const SampleOrder> order, const SplitOptions& split,
             std::uint64_t epoch, std::uint64_t start = 0);

  std::uint64_t epoch() const noexcept { return epoch_; }
  const Split& split() const noexcept { return split_; }
  const SampleOrder& order() const noexcept { return *order_; }

  /// Number of places in batch `batch`; only the last one may be short.
  std::uint64_t batch_size(std::uint64_t batch) const noexcept;
  /// Number of the batch in its epoch. One that begins in the middle counts the part before as
  /// whole batches of this size.
  std::uint64_t step_of(std::uint64_t batch) const noexcept {
    return start_ / options_.global_batch() + batch;
  }
  /// The position of the first sample of the global batch that `batch` is a part of.
  std::uint64_t position_of(std::uint64_t batch) const noexcept {
    return start_ + batch * options_.global_batch();
  }
  /// The first position behind that global batch; the epoch's end behind the last one.
  std::uint64_t position_behind(std::uint64_t batch) const noexcept;

  /// What stands at place `index` of batch `batch`. Padding repeats the epoch from its start.
  Pick pick(std::uint64_t batch, std::uint64_t index) const noexcept;

 private:
  std::shared_ptr<const SampleOrder> order_;
  SplitOptions options_;
  std::uint64_t epoch_;
  std::uint64_t start_;
  Split split_;
  std::vector<PassOrder> passes_;  // Of each set, the one under way at the start.
};

}  // namespace feedrace::order
