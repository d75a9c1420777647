// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

#include "feedrace/tools/order_view.h"

namespace feedrace::tools {

/// Steps of an epoch. Throws Error kInvalidArgument where the epoch has no step `first`.
struct StepRange {
  std::uint64_t first = 0;
  std::uint64_t count = 1;  ///< Those behind the epoch's end are left out.
};

/// Who gets what in these steps: two lines a rank, numbers and the first keys.
std::string order_text(const OrderView& view, const StepRange& steps);

/// The same, an object a place: epoch, step, rank, place, position, sample, set, key, flag.
nlohmann::ordered_json order_json(const OrderView& view, const StepRange& steps);

}  // namespace feedrace::tools
