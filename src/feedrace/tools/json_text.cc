// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/json_text.h"

#include <cstdio>
#include <string>

namespace feedrace::tools {

void print_json(const nlohmann::ordered_json& json, int indent) {
  const std::string text = json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

}  // namespace feedrace::tools
