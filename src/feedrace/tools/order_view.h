// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "feedrace/loader.h"
#include "feedrace/order/epoch_order.h"

namespace feedrace::tools {

/// What the commands look at that show or check an order.
struct OrderView {
  std::shared_ptr<const formats::Dataset> dataset;
  std::shared_ptr<const order::SampleOrder> order;
  order::SplitOptions split;
  std::uint64_t epoch = 0;

  /// The batches of one rank. Throws Error kInvalidArgument for an epoch that can't be counted.
  order::EpochOrder batches_of(std::uint64_t rank) const;
  const std::string& set_name(std::size_t set) const { return order->options().sets[set].name; }
};

/// The order that a loader of these options and this plan has.
OrderView view_order(const LoaderOptions& options, const Plan& plan, std::uint64_t epoch);

}  // namespace feedrace::tools
