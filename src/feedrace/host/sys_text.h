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

/// What stands in the first brackets of a choice: "mq-deadline" of "none [mq-deadline] kyber";
/// empty where there are none.
std::string chosen_word(const std::string& text);

/// The rest of the line that begins with `name` and ":" or a blank, without what is blank in front;
/// nothing where no line does.
std::optional<std::string> line_of(const std::string& text, const std::string& name);

/// Its first word as a whole number.
std::optional<std::int64_t> number_of(const std::filesystem::path& path);

}  // namespace feedrace::host
