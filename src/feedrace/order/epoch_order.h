// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "feedrace/order/permutation.h"

namespace feedrace::order {

enum class LastBatchRule : std::uint8_t { kDrop, kPad, kPartial };

struct OrderOptions {
  std::uint64_t sample_count = 0;
  std::uint64_t batch_size = 1;
  LastBatchRule last_batch = LastBatchRule::kDrop;
  bool shuffle = true;
  std::uint64_t seed = 0;
};

/// How the samples of an epoch fall into batches: the same in every epoch.
struct EpochPlan {
  std::uint64_t steps = 0;
  std::uint64_t positions = 0;  ///< Places in all batches of an epoch.
  std::uint64_t dropped = 0;
  std::uint64_t padded = 0;
};

/// Throws Error kInvalidArgument: no samples, a batch size of 0, or no batch at all (fewer samples
/// than a batch, dropped).
EpochPlan plan_epoch(const OrderOptions& options);

/// What stands at a position of an epoch.
struct Pick {
  std::uint64_t sample = 0;
  bool is_padding = false;
};

/// The order of one epoch: a pure function of (options, epoch). Immutable, thread-safe, O(1).
class EpochOrder {
 public:
  EpochOrder(const OrderOptions& options, std::uint64_t epoch);

  std::uint64_t epoch() const noexcept { return epoch_; }
  const EpochPlan& plan() const noexcept { return plan_; }

  /// Number of places in batch `step`; only the last one may be short.
  std::uint64_t batch_size(std::uint64_t step) const noexcept;
  /// The sample at place `index` of batch `step`. Padding repeats the epoch from its start.
  Pick pick(std::uint64_t step, std::uint64_t index) const noexcept;
  /// The stand-in for a bad `sample`: `attempt` counts from 0. Another sample of the set, drawn by
  /// (seed, epoch, sample, attempt); never `sample` itself if there is another.
  std::uint64_t substitute(std::uint64_t sample, std::uint32_t attempt) const noexcept;

 private:
  OrderOptions options_;
  std::uint64_t epoch_;
  EpochPlan plan_;
  std::optional<Permutation> permutation_;
};

/// "global shuffle, seed 7" or "as stored".
std::string describe(const OrderOptions& options);

}  // namespace feedrace::order
