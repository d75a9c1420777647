// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace feedrace::tools {

/// Sets `object[name]`, or `object[name + "_hex"]` where `value` is not UTF-8: JSON has no bytes.
void put_text(nlohmann::ordered_json& object, const std::string& name, std::string_view value);

/// Prints JSON and a line end to standard output.
void print_json(const nlohmann::ordered_json& json, int indent = 2);

}  // namespace feedrace::tools
