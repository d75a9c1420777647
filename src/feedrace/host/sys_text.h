// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

namespace feedrace::host {

// Files of /proc and /sys. What can't be read is unknown, never an error.

/// The whole file; empty when it can't be read.
std::string text_of(const std::filesystem::path& path);

/// Its first word; empty when there is none.
std::string word_of(const std::filesystem::path& path);

/// Its first word as a whole number.
std::optional<std::int64_t> number_of(const std::filesystem::path& path);

}  // namespace feedrace::host
