// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feedrace/pipeline.h"
#include "feedrace/stats.h"
#include "feedrace/verdict.h"
#include "feedrace/verdict/facts.h"

namespace feedrace::pipeline {

/// What limits, by the rules of `verdict`; then which pictures are left to libjpeg-turbo, if most
/// are, and the steps of `pipeline` that are not fused.
Verdict explain(const verdict::Facts& facts, const JpegStats& jpeg, const Pipeline& pipeline);

}  // namespace feedrace::pipeline
