// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "feedrace/pipeline.h"
#include "feedrace/stats.h"

namespace feedrace::pipeline {

/// One sentence: which stage limits, with the shares that show it. `stats.stages` are io, decode
/// and consumer. Ends with the ops of `pipeline` that are not fused, if there are any.
std::string explain(const Stats& stats, const Pipeline& pipeline);

}  // namespace feedrace::pipeline
