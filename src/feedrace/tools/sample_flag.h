// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feedrace/tensor.h"

namespace feedrace::tools {

/// As JSON spells it: "real", "padded", "substituted", "blank".
const char* name_of(SampleFlag flag) noexcept;

}  // namespace feedrace::tools
