// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace feedrace::formats {

/// The whole file without the byte order mark at its start. Throws Error: kNotFound, kIo.
std::string read_list_file(const std::string& path);

/// Calls `take` with each line that is not blank, without its line end (LF or CRLF), and its number
/// from 1. Throws Error kCorruptData, which names file and line, at a line with a NUL byte.
void for_each_line(std::string_view content, const std::string& path,
                   const std::function<void(std::string_view, std::uint64_t)>& take);

/// Takes "path label" apart at the last blank or tab. Blanks inside and in front of the path are
/// part of it; those between path and label and behind the label are not. Throws Error
/// kCorruptData, which names file and line: no label, or not a whole number.
std::pair<std::string_view, std::int64_t> split_list_line(std::string_view line,
                                                          const std::string& path,
                                                          std::uint64_t number);

}  // namespace feedrace::formats
