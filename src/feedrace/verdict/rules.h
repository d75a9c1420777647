// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feedrace/verdict.h"
#include "feedrace/verdict/facts.h"

namespace feedrace::verdict {

/// In fewer batches there is little to see but the start: the first batch waits for everything.
inline constexpr std::uint64_t kTellingBatches = 5;

/// What limits, why, and what to do. A function of the facts alone.
Verdict judge(const Facts& facts);

}  // namespace feedrace::verdict
