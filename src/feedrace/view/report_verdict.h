// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "feedrace/view/report.h"

namespace feedrace::view {

/// HTML: what limits, why, what to do about it, what else could give how much.
std::string verdict_of(const Report& report);

/// HTML: a row for each stage, with the one that limits marked: how busy it was, for how long it
/// waited, how much stood in the queue in front of it, and how long one of its items took.
std::string evidence_of(const Report& report);

}  // namespace feedrace::view
