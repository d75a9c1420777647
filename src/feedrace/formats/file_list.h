// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/format.h"

namespace feedrace::formats {

/// A text file that names images and their labels, chosen by its ending:
/// - .txt, .lst: "path label" a line, split at the last blank; no quoting, no comments;
/// - .csv: RFC 4180. A first row that names "path" and "label" says which columns those are (or
///   "path" alone: no labels); without one, each row is path, label;
/// - .jsonl: {"path": ..., "label": ...} a line; labels everywhere or nowhere.
/// A byte order mark, CRLF and blank lines do no harm. Relative paths begin at the list's folder.
/// Lines that come twice are two samples.
class FileListFormat : public Format {
 public:
  std::string_view name() const noexcept override { return "list"; }
  bool accepts(const std::vector<std::string>& sources) const override;
  std::unique_ptr<Dataset> open(const std::vector<std::string>& sources,
                                const OpenOptions& options) const override;
};

/// What a list says, as it says it.
struct ListEntries {
  std::string paths;                     ///< One behind the other.
  std::vector<std::uint64_t> begins{0};  ///< One more than there are entries.
  std::vector<std::int64_t> labels;      ///< Empty when the list has none.

  std::uint64_t size() const noexcept { return begins.size() - 1; }
  std::string_view path(std::uint64_t i) const noexcept {
    return std::string_view(paths).substr(begins[i], begins[i + 1] - begins[i]);
  }
  void add(std::string_view path);
};

/// Parses the content of list `path` (which chooses the syntax and stands in messages). Throws
/// Error kCorruptData with file and line.
ListEntries parse_list(std::string_view content, const std::string& path);

}  // namespace feedrace::formats
