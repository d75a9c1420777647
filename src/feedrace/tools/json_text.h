// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "feedrace/core/json_text.h"

namespace feedrace::tools {

/// Prints JSON and a line end to standard output.
void print_json(const nlohmann::ordered_json& json, int indent = 2);

}  // namespace feedrace::tools
