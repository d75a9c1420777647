// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "feedrace/error.h"
#include "feedrace/op.h"
#include "feedrace/pipeline.h"
#include "feedrace/transform/step_draw.h"

namespace feedrace::transform {

/// Appends an object a step to the JSON `list`: its name as "op", and the numbers drawn for a
/// picture of this size, the same as the worker draws; sizes are [height, width], boxes
/// [x, y, width, height] in pixels of the step's input, "output" its output's size.
/// Failure: that of a step, as `draw_step`.
Result<void> trace_steps(const Pipeline& pipeline, ops::ImageSize picture, const SampleKey& key,
                         nlohmann::ordered_json& list);

}  // namespace feedrace::transform
