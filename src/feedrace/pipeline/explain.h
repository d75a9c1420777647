// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "feedrace/stats.h"

namespace feedrace::pipeline {

/// One sentence: which stage limits, with the shares that show it. `stats.stages` are io, decode
/// and consumer.
std::string explain(const Stats& stats);

}  // namespace feedrace::pipeline
