// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "feedrace/verdict.h"

namespace feedrace::verdict {

/// The stage that a limit lies in: "io", "decode", "device", "consumer"; null: it lies in the
/// machine as a whole, or nothing is known.
const char* limiting_stage(Limit limit) noexcept;

}  // namespace feedrace::verdict
