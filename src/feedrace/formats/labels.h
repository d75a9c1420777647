// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include <nlohmann/json_fwd.hpp>

#include "feedrace/error.h"

namespace feedrace::formats {

/// A label is decimal digits with an optional sign, blanks and line ends around it allowed, nothing
/// else: "3", " 42 \n", "-1", "+5", "007". Failure: kCorruptData, without a place; the caller puts
/// file and sample in front.
Result<std::int64_t> parse_label(std::string_view text);

/// Nesting that a JSON text may have. Labels are flat; deeper text is an attack or a mistake.
inline constexpr std::size_t kMaxJsonDepth = 256;

/// One JSON document (RFC 8259; a byte order mark is passed over) of at most `kMaxJsonDepth`
/// levels. Failure: kCorruptData, one line, without a place.
Result<nlohmann::json> parse_json(std::string_view text);

/// What a JSON member says about its sample's label.
struct JsonLabel {
  bool found = false;  ///< False when the document is not an object or lacks the member.
  std::int64_t value = 0;
};

/// The whole number at member `key` of the object `text`. Failure: kCorruptData, without a place:
/// not JSON, or the member is not a whole number that fits 64 bits.
Result<JsonLabel> parse_json_label(std::string_view text, const std::string& key);

/// Labels by key, from a text file of lines "key label"; the label is behind the last blank.
using LabelMap = std::unordered_map<std::string, std::int64_t>;

/// Throws Error: kNotFound, kIo, kCorruptData (names file and line).
LabelMap read_label_file(const std::string& path);

}  // namespace feedrace::formats
