// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "feedrace/order/pass_order.h"
#include "feedrace/order/selection.h"
#include "feedrace/order/set_walk.h"

namespace feedrace::order {

/// One data set of an order.
struct OrderedSet {
  std::string name;  ///< For people.
  std::shared_ptr<const Selection> selection;
  std::uint64_t first_sample = 0;  ///< Number of its sample 0 among the samples of all sets.
  std::uint64_t repeat = 1;        ///< Passes an epoch.
  double weight = 0;               ///< See `SetWalk`.
};

struct OrderOptions {
  std::vector<OrderedSet> sets;
  ShuffleOptions shuffle;
  std::uint64_t epoch_samples = 0;  ///< See `SetWalk`.
  State::Origin origin;
};

/// What stands at a position of an epoch.
struct Pick {
  std::uint64_t sample = 0;  ///< Among the samples of all sets.
  /// Takes the epoch's place in random numbers, so that a sample that comes several times in an
  /// epoch is cropped in several ways: the pass over its set, and which of its repeats this is.
  std::uint64_t draw = 0;
  std::size_t set = 0;
  std::uint64_t member = 0;  ///< Of the set's selection.
  bool is_padding = false;
};

/// Which sample stands at which position of which epoch: a pure function of the options, the same
/// on every rank. Immutable, thread-safe, O(1) in samples.
class SampleOrder {
 public:
  /// Throws Error kInvalidArgument: see `SetWalk`; a chunk or window of 0 samples.
  explicit SampleOrder(OrderOptions options);

  const OrderOptions& options() const noexcept { return options_; }
  const SetWalk& walk() const noexcept { return walk_; }
  std::uint64_t epoch_samples() const noexcept { return walk_.epoch_samples(); }
  /// Members of all sets, each counted once.
  std::uint64_t member_count() const noexcept { return first_members_.back(); }
  /// Members of the sets before `set`.
  std::uint64_t first_member(std::size_t set) const noexcept { return first_members_[set]; }

  PassOrder pass_order(std::size_t set, std::uint64_t pass) const;
  /// The pick at a turn; `order` is the pass order of the turn's set and pass.
  Pick pick(const Turn& turn, const PassOrder& order) const noexcept;

  /// The stand-in for a pick that is bad, of the same set: drawn by (seed, draw, sample, attempt).
  /// Never the same member if there is another.
  Pick substitute(const Pick& bad, std::uint32_t attempt) const noexcept;

  /// "global shuffle, seed 7", "window shuffle (4,096 samples in chunks of 64), seed 7", "as
  /// stored", "as listed"; then how several sets follow each other.
  std::string describe() const;

 private:
  OrderOptions options_;
  SetWalk walk_;
  std::vector<std::uint64_t> first_members_;  // One more than there are sets.
};

}  // namespace feedrace::order
