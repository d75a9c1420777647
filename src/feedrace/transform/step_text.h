// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "feedrace/op.h"
#include "feedrace/pipeline.h"
#include "feedrace/tensor.h"

namespace feedrace::transform {

// Each throws Error kInvalidArgument, with the value and what is allowed.
void check_step(const Step& step);
void check_erasing(const RandomErasing& erasing, const Pipeline& pipeline);
void check_size(std::string_view name, ops::ImageSize size);

/// "resize 256", "flip 0.5": a step with what differs from its defaults; empty for a step that
/// never changes anything. It is part of states, where another text is another pipeline.
std::string step_text(const Step& step);
std::string erasing_text(const RandomErasing& erasing);
/// " mean (..) std (..)", empty for ImageNet's.
std::string normalize_text(const Pipeline& pipeline);

}  // namespace feedrace::transform
