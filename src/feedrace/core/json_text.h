// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "feedrace/core/text.h"

namespace feedrace {

/// Sets `object[name]`, or `object[name + "_hex"]` where `value` is not UTF-8: JSON has no bytes.
template <typename Json>
void put_text(Json& object, const std::string& name, std::string_view value) {
  if (is_utf8(value)) {
    object[name] = value;
  } else {
    object[name + "_hex"] = hex_of(value);
  }
}

/// What `put_text` set; nothing where there is neither form, or it is no text.
std::optional<std::string> text_at(const nlohmann::json& object, const std::string& name);

/// A string, or {"hex": ...} where it is not UTF-8, which JSON can't carry.
nlohmann::json text_to_json(std::string_view text);

/// What `text_to_json` made the value of; nothing where it is neither.
std::optional<std::string> text_from_json(const nlohmann::json& value);

/// The value of a text from outside, or "discarded" where it is no JSON. Values deeper than 64 are
/// refused: what walks over a value calls itself once for each level.
nlohmann::json parse_shallow_json(std::string_view text);

}  // namespace feedrace
