// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/decoded_pictures.h"

#include <algorithm>
#include <string>
#include <vector>

namespace feedrace::formats {
namespace {

bool is_picture_field(const std::string& field) {
  const std::vector<std::string> known = OpenOptions().image_fields;
  return std::find(known.begin(), known.end(), field) != known.end();
}

}  // namespace

bool is_decoded_field(std::string_view field) noexcept {
  return std::find(kDecodedFields.begin(), kDecodedFields.end(), field) != kDecodedFields.end();
}

bool holds_decoded(const Dataset& set) {
  if (set.size() == 0) return false;
  const std::vector<std::string> fields = set.stored_fields();
  if (!fields.empty()) {
    // Others than the decoded ones stand in front of them.
    const auto first = std::find_if(fields.begin(), fields.end(), is_picture_field);
    return first != fields.end() &&
           std::all_of(fields.begin(), fields.end(), [](const std::string& field) {
             return !is_picture_field(field) || is_decoded_field(field);
           });
  }
  // A folder has samples of one sort; a list may be mixed, and then a wrong guess costs time only.
  const std::string key = set.key(0);
  return std::any_of(kDecodedFields.begin(), kDecodedFields.end(), [&](std::string_view field) {
    return key.ends_with("." + std::string(field));
  });
}

}  // namespace feedrace::formats
