// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "feedrace/backend.h"

namespace feedrace::tools {

/// Reads `size` bytes at `offset` of an open file. Throws Error; a short read is kCorruptData.
std::vector<std::byte> read_range(storage::Backend& backend, const storage::File& file,
                                  std::uint64_t offset_bytes, std::uint64_t size_bytes);

/// Reads a file. Throws Error: kNotFound, kIo.
std::vector<std::byte> read_whole_file(const std::string& path);
std::string read_whole_text(const std::string& path);

}  // namespace feedrace::tools
