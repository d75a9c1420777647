// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "feedrace/order/coverage.h"
#include "feedrace/tools/order_view.h"

namespace feedrace::tools {

/// Counts what all ranks get in the epoch, with a progress bar. Throws Error kInvalidArgument when
/// the counting would take more than half of the memory that is available.
order::Coverage count_epoch(const OrderView& view);

/// "coverage  epoch 0: 1,281,167 of 1,281,167 samples exactly once on 8 ranks, 0 repeated, 0 left
/// out", and a line for each problem.
std::string coverage_text(const OrderView& view, const order::Coverage& coverage);
nlohmann::ordered_json coverage_json(const OrderView& view, const order::Coverage& coverage);

}  // namespace feedrace::tools
