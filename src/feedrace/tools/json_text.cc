// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/json_text.h"

#include <cstdio>

#include "feedrace/core/text.h"

namespace feedrace::tools {

void put_text(nlohmann::ordered_json& object, const std::string& name, std::string_view value) {
  if (is_utf8(value)) {
    object[name] = value;
  } else {
    object[name + "_hex"] = hex_of(value);
  }
}

void print_json(const nlohmann::ordered_json& json, int indent) {
  const std::string text = json.dump(indent, ' ', false, nlohmann::json::error_handler_t::replace);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fputc('\n', stdout);
}

}  // namespace feedrace::tools
