// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace feedrace::formats {

/// Beside packed shards: one class a line, by number, as `printable` writes names.
inline constexpr const char* kClassListFile = "classes.txt";

/// The class names beside the shards, where all of them lie in one folder that was packed into.
/// Lists of others may number other things, and count for nothing. One that can't be read, or is
/// none, is a line in `warnings`, and gives no names.
std::vector<std::string> read_class_list(const std::vector<std::string>& shards,
                                         std::vector<std::string>& warnings);

}  // namespace feedrace::formats
