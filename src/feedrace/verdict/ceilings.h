// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "feedrace/verdict/facts.h"

namespace feedrace::verdict {

/// What `feedrace bench ceilings --json` wrote: {"ceilings": {"storage": {"images_per_second":
/// ...},
/// ...}}. Names that are not known are left alone. Throws Error kInvalidArgument: no such JSON, a
/// rate that is none.
MeasuredCeilings parse_ceilings(std::string_view text);

}  // namespace feedrace::verdict
