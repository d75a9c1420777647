// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"

namespace feedrace::formats {

/// Rows of comma-separated text by RFC 4180: fields in double quotes may hold commas, line ends and
/// doubled quotes. LF and CRLF end a row; blank lines are passed over.
class CsvReader {
 public:
  /// `text` must outlive the reader.
  explicit CsvReader(std::string_view text) : text_(text) {}

  /// Fills `row` with the next one and returns true, or returns false at the end.
  /// Failure: kCorruptData, without a place: a quote that does not end, or stands inside a field.
  Result<bool> next(std::vector<std::string>& row);

  /// Of the row that `next` last looked at: the line on which it begins, from 1.
  std::uint64_t line() const noexcept { return row_line_; }

 private:
  Result<void> read_field(std::string& field);
  Result<void> read_quoted(std::string& field);
  bool at_line_end() const noexcept;
  void pass_line_end() noexcept;

  std::string_view text_;
  std::size_t at_ = 0;
  std::uint64_t line_ = 1;
  std::uint64_t row_line_ = 1;
};

}  // namespace feedrace::formats
