// SPDX-License-Identifier: Apache-2.0
#include "feedrace/core/json_text.h"

#include <charconv>
#include <cstddef>
#include <system_error>

namespace feedrace {
namespace {

constexpr std::size_t kMostDepth = 64;

bool is_deep(std::string_view text) noexcept {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      in_string = c != '"';
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMostDepth) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

/// Of what `hex_of` gives, capital letters too.
std::optional<std::string> bytes_of_hex(std::string_view hex) {
  if (hex.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2) {
    unsigned char byte = 0;
    const char* const end = hex.data() + i + 2;
    const auto [at, error] = std::from_chars(hex.data() + i, end, byte, 16);
    if (error != std::errc() || at != end) return std::nullopt;
    bytes.push_back(static_cast<char>(byte));
  }
  return bytes;
}

}  // namespace

std::optional<std::string> text_at(const nlohmann::json& object, const std::string& name) {
  const auto found = object.find(name);
  if (found != object.end() && found->is_string()) return found->get<std::string>();
  const auto hex = object.find(name + "_hex");
  if (hex == object.end() || !hex->is_string()) return std::nullopt;
  return bytes_of_hex(hex->get_ref<const std::string&>());
}

nlohmann::json text_to_json(std::string_view text) {
  if (is_utf8(text)) return std::string(text);
  return {{"hex", hex_of(text)}};
}

std::optional<std::string> text_from_json(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_object()) return std::nullopt;
  const auto hex = value.find("hex");
  if (hex == value.end() || !hex->is_string()) return std::nullopt;
  return bytes_of_hex(hex->get_ref<const std::string&>());
}

nlohmann::json parse_shallow_json(std::string_view text) {
  if (is_deep(text)) return nlohmann::json::value_t::discarded;
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace feedrace
