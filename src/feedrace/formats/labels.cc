// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/labels.h"

#include <charconv>
#include <limits>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/text.h"
#include "feedrace/formats/list_lines.h"

namespace feedrace::formats {
namespace {

constexpr std::string_view kBlanks = " \t\r\n\v\f";
/// Of a label that is shown in a message; more would not help anybody.
constexpr std::size_t kShownBytes = 40;

std::string shown(std::string_view text) {
  if (text.size() <= kShownBytes) return fmt::format("'{}'", printable(text));
  return fmt::format("'{}...' ({} bytes)", printable(text.substr(0, kShownBytes)), text.size());
}

Failure bad_label(std::string_view text, std::string_view why) {
  return {ErrorCode::kCorruptData,
          fmt::format("label {} is {}; a label is a whole number", shown(text), why)};
}

/// True when brackets nest deeper than the limit. Strings are walked over; anything malformed is
/// left to the parser.
bool nests_too_deep(std::string_view text) noexcept {
  std::size_t depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        in_string = false;
      }
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxJsonDepth) return true;
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

}  // namespace

Result<std::int64_t> parse_label(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return bad_label(text, "empty");
  const std::size_t end = text.find_last_not_of(kBlanks) + 1;
  std::string_view digits = text.substr(begin, end - begin);
  // from_chars takes no plus sign; a second sign behind it must not slip through.
  if (digits.size() > 1 && digits[0] == '+' && digits[1] != '-') digits.remove_prefix(1);
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error == std::errc::result_out_of_range)
    return bad_label(text, "out of the range of 64 bits");
  if (error != std::errc() || stop != digits.data() + digits.size()) {
    return bad_label(text, "not a whole number");
  }
  return value;
}

Result<nlohmann::json> parse_json(std::string_view text) {
  if (nests_too_deep(text)) {
    return Failure{ErrorCode::kCorruptData,
                   fmt::format("JSON nests deeper than {} levels", kMaxJsonDepth)};
  }
  try {
    return nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    // "[json.exception.parse_error.101] parse error at ...": the bracket says nothing to a user.
    std::string_view what = error.what();
    if (const std::size_t at = what.find("] "); at != std::string_view::npos) {
      what.remove_prefix(at + 2);
    }
    return Failure{ErrorCode::kCorruptData, fmt::format("not valid JSON: {}", printable(what))};
  }
}

Result<JsonLabel> parse_json_label(std::string_view text, const std::string& key) {
  Result<nlohmann::json> document = parse_json(text);
  if (!document) return document.error();
  if (!document->is_object()) return JsonLabel{};
  const auto member = document->find(key);
  if (member == document->end()) return JsonLabel{};
  const bool is_integer = member->is_number_integer();
  const bool too_large =
      member->is_number_unsigned() &&
      member->get<std::uint64_t>() > std::uint64_t{std::numeric_limits<std::int64_t>::max()};
  if (!is_integer || too_large) {
    const auto replace = nlohmann::json::error_handler_t::replace;
    return Failure{ErrorCode::kCorruptData,
                   fmt::format("JSON member '{}' is {}, not a whole number of 64 bits",
                               printable(key), shown(member->dump(-1, ' ', false, replace)))};
  }
  return JsonLabel{true, member->get<std::int64_t>()};
}

LabelMap read_label_file(const std::string& path) {
  const std::string content = read_list_file(path);
  LabelMap labels;
  for_each_line(content, path, [&](std::string_view line, std::uint64_t number) {
    auto [key, label] = split_list_line(line, path, number);
    if (!labels.emplace(std::string(key), label).second) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("{}: line {}: key {} comes twice; give each key one label",
                              printable(path), number, printable(key)));
    }
  });
  return labels;
}

}  // namespace feedrace::formats
