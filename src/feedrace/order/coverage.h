// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "feedrace/order/epoch_order.h"

namespace feedrace::order {

/// What all ranks together deliver in one epoch, counted sample by sample.
struct Coverage {
  std::uint64_t places = 0;           ///< In all batches of all ranks.
  std::uint64_t padded = 0;           ///< Of these, flagged as padding.
  std::uint64_t delivered = 0;        ///< Members that came at least once, padding not counted.
  std::uint64_t left_out = 0;         ///< Members that never came.
  std::vector<std::string> problems;  ///< What is not as the split says, one sentence each.
};

/// Counts what is delivered in an epoch and says what is not as the order promises.
class CoverageCount {
 public:
  /// `split` is that of the whole epoch. Takes a byte a member.
  CoverageCount(const SampleOrder& order, const Split& split, std::uint64_t epoch);

  void add(const Pick& pick);
  std::uint64_t places() const noexcept { return coverage_.places; }
  /// Once, when all is added.
  Coverage finish();

 private:
  void check_totals();
  void check_set(std::size_t set, std::uint64_t begin, std::uint64_t end);

  const SampleOrder& order_;
  const Split split_;
  const std::uint64_t epoch_;
  std::vector<std::vector<std::uint8_t>> counts_;  // By set and member.
  Coverage coverage_;
};

/// Walks the whole epoch as every rank would, by the code that loaders use, and checks it against
/// what the order promises: without weights each member exactly `repeat` times, but for those that
/// the last batch drops; with weights no member a second time before each had come; the padding
/// that the split says, and no more. Takes a byte a member, time in proportion to the epoch.
/// `progress` is called now and then with the places walked so far; it may throw to end it.
Coverage check_epoch(const std::shared_ptr<const SampleOrder>& order, const SplitOptions& split,
                     std::uint64_t epoch, const std::function<void(std::uint64_t)>& progress);

}  // namespace feedrace::order
