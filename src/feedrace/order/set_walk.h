// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "feedrace/order/state.h"

namespace feedrace::order {

/// A data set as the walk sees it.
struct WalkedSet {
  std::uint64_t member_count = 0;
  std::uint64_t repeat = 1;  ///< Passes an epoch; 1 for sets that are mixed by weight.
  double weight = 0;         ///< All sets have one above 0, or none has.
};

/// Whose turn it is.
struct Turn {
  std::size_t set = 0;
  std::uint64_t pass = 0;   ///< How many times the set was gone through before, over all epochs.
  std::uint64_t place = 0;  ///< In this pass.
};

/// Which set's turn it is at a position of an epoch, and how far that set has come. Sets without
/// weights come one after another in each epoch. Sets with weights take turns, spread as evenly as
/// their weights allow: in any stretch of an epoch each set has its share, rounded up or down; a
/// set goes on in the next epoch where it stopped, and begins its next pass when it is through, so
/// that no sample comes twice before each has come once. O(number of sets) time and memory;
/// immutable, thread-safe.
class SetWalk {
 public:
  /// `epoch_samples` 0: the sum over all sets. Only a mix by weight may have another number. Throws
  /// Error kInvalidArgument: no set, an empty set, a weight beside none, a weight that is negative,
  /// not finite or below 1e-9 of the sum, a repeat of 0 or beside a weight, more than 2^62 samples.
  SetWalk(std::vector<WalkedSet> sets, std::uint64_t epoch_samples, State::Origin origin);

  std::uint64_t epoch_samples() const noexcept { return epoch_samples_; }
  const std::vector<WalkedSet>& sets() const noexcept { return sets_; }
  const State::Origin& origin() const noexcept { return origin_; }
  bool is_weighted() const noexcept { return !shares_.empty(); }

  /// Throws Error kInvalidArgument for an epoch from 2^40 on or whose positions can't be counted in
  /// 63 bits, for a position in it that is not below `epoch_samples()`, or that lies before the
  /// change of weights.
  void check(std::uint64_t epoch, std::uint64_t position) const;
  /// For an epoch that passes `check`, and positions from the one that passed it on.
  Turn at(std::uint64_t epoch, std::uint64_t position) const noexcept;
  /// For each set how many of its samples came before, over all epochs; `position` may be
  /// `epoch_samples()`.
  std::vector<std::uint64_t> set_positions(std::uint64_t epoch, std::uint64_t position) const;

 private:
  std::uint64_t since_origin(std::uint64_t epoch, std::uint64_t position) const noexcept;

  std::vector<WalkedSet> sets_;
  State::Origin origin_;
  std::vector<std::uint64_t> ends_;    // Of sets one after another: the first position behind each.
  std::vector<std::uint64_t> shares_;  // Of a mix: of 2^32.
  std::uint64_t share_sum_ = 0;
  std::uint64_t epoch_samples_ = 0;
};

}  // namespace feedrace::order
