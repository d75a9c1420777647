// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/sys_text.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace feedrace::host {

std::string text_of(const std::filesystem::path& path) {
  // A folder opens like a file and would fail with an exception in the first read.
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return {};
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string word_of(const std::filesystem::path& path) {
  std::istringstream text(text_of(path));
  std::string word;
  text >> word;
  return word;
}

std::optional<std::int64_t> number_of(const std::filesystem::path& path) {
  const std::string word = word_of(path);
  const char* end = word.data() + word.size();
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(word.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace feedrace::host
