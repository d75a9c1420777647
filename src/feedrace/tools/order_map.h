// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "feedrace/tools/order_view.h"

namespace feedrace::tools {

/// How often a stretch of an epoch draws from a stretch of the stored order: rows are equal
/// stretches of the epoch in time, columns of the stored order (of the samples in use).
struct OrderMap {
  std::vector<std::vector<std::uint64_t>> counts;
  std::uint64_t looked_at = 0;  ///< Positions; all of a short epoch.
};

/// At most 16 rows and 64 columns, from 64k positions at most, the same ones each time.
OrderMap make_order_map(const OrderView& view);

/// A picture of it with a legend, 70 columns wide.
std::string to_text(const OrderMap& map);

}  // namespace feedrace::tools
