// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/list_lines.h"

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/labels.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::formats {
namespace {

constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";

[[noreturn]] void fail_line(const std::string& path, std::uint64_t number, std::string_view what) {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("{}: line {}: {}", printable(path), number, what));
}

}  // namespace

std::string read_list_file(const std::string& path) {
  Result<std::string> content = read_whole_file(path);
  if (!content) raise(content.error());
  if (content->starts_with(kByteOrderMark)) content->erase(0, kByteOrderMark.size());
  return *std::move(content);
}

void for_each_line(std::string_view content, const std::string& path,
                   const std::function<void(std::string_view, std::uint64_t)>& take) {
  std::uint64_t number = 0;
  while (!content.empty()) {
    const std::size_t end = content.find('\n');
    std::string_view line = content.substr(0, end);
    content.remove_prefix(end == std::string_view::npos ? content.size() : end + 1);
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.find('\0') != std::string_view::npos) {
      fail_line(path, number, "holds a NUL byte; no path does");
    }
    if (line.find_first_not_of(" \t\r") != std::string_view::npos) take(line, number);
  }
}

std::pair<std::string_view, std::int64_t> split_list_line(std::string_view line,
                                                          const std::string& path,
                                                          std::uint64_t number) {
  const std::size_t last = line.find_last_not_of(" \t\r");
  line = line.substr(0, last + 1);
  const std::size_t blank = line.find_last_of(" \t");
  const std::size_t path_end =
      blank == std::string_view::npos ? blank : line.find_last_not_of(" \t", blank);
  if (path_end == std::string_view::npos) {
    fail_line(path, number,
              fmt::format("no label behind '{}'; write \"path label\"", printable(line)));
  }
  const Result<std::int64_t> label = parse_label(line.substr(blank + 1));
  if (!label) fail_line(path, number, label.error().message);
  return {line.substr(0, path_end + 1), *label};
}

}  // namespace feedrace::formats
