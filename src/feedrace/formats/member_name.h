// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace feedrace::formats {

/// Takes a member's path apart by WebDataset's rule: the key is the path up to the first dot of the
/// base name; the rest, with A-Z made lower case, is the field, written to `field`. Nothing for a
/// member of no sample: no dot, a base name that begins with one, or a path that begins with a part
/// of the form __name__.
std::optional<std::string_view> split_member_name(std::string_view path, std::string& field);

}  // namespace feedrace::formats
