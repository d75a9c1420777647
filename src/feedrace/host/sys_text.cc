// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/sys_text.h"

#include <charconv>
#include <sstream>
#include <system_error>

#include "feedrace/core/kernel_file.h"

namespace feedrace::host {

std::string text_of(const std::filesystem::path& path) { return kernel_file(path.string()); }

std::string word_of(const std::filesystem::path& path) {
  std::istringstream text(text_of(path));
  std::string word;
  text >> word;
  return word;
}

std::string chosen_word(const std::string& text) {
  const std::size_t begin = text.find('[');
  const std::size_t end = text.find(']', begin == std::string::npos ? 0 : begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  return text.substr(begin + 1, end - begin - 1);
}

std::optional<std::string> line_of(const std::string& text, const std::string& name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with(name) || line.size() <= name.size()) continue;
    if (line[name.size()] != ' ' && line[name.size()] != ':' && line[name.size()] != '\t') continue;
    const std::size_t begin = line.find_first_not_of(": \t", name.size());
    return begin == std::string::npos ? std::string() : line.substr(begin);
  }
  return std::nullopt;
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
