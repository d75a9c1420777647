// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace feedrace::formats {

/// The keys in a text file, one a line as it stands there; none in a file without lines. A byte
/// order mark, CRLF and blank lines do no harm. Throws Error: kNotFound, kIo, kCorruptData (a NUL
/// byte; names the line).
std::vector<std::string> read_key_list(const std::string& path);

/// The sample numbers in a text file, one a line, or in a one-dimensional .npy file of 32-bit or
/// 64-bit integers, told by its ending or its first bytes. Throws Error: kNotFound, kIo,
/// kCorruptData (a .npy file that is cut or of another shape), kInvalidArgument (what is no whole
/// number from 0 up, by line or entry; other types).
std::vector<std::uint64_t> read_index_list(const std::string& path);

}  // namespace feedrace::formats
