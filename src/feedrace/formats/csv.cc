// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/csv.h"

namespace feedrace::formats {

bool CsvReader::at_line_end() const noexcept {
  return at_ >= text_.size() || text_[at_] == '\n' || text_.substr(at_, 2) == "\r\n";
}

void CsvReader::pass_line_end() noexcept {
  if (at_ >= text_.size()) return;
  at_ += text_[at_] == '\n' ? 1 : 2;
  ++line_;
}

Result<bool> CsvReader::next(std::vector<std::string>& row) {
  row.clear();
  while (at_ < text_.size() && at_line_end()) pass_line_end();
  row_line_ = line_;
  if (at_ >= text_.size()) return false;
  while (true) {
    row.emplace_back();
    if (const Result<void> read = read_field(row.back()); !read) return read.error();
    if (at_line_end()) break;
    ++at_;  // The comma.
  }
  pass_line_end();
  return true;
}

Result<void> CsvReader::read_field(std::string& field) {
  if (at_ < text_.size() && text_[at_] == '"') return read_quoted(field);
  const std::size_t begin = at_;
  while (!at_line_end() && text_[at_] != ',') {
    if (text_[at_] == '"') {
      return Failure{ErrorCode::kCorruptData,
                     "a quote inside a field without quotes; put \"\" around the field"};
    }
    ++at_;
  }
  field = text_.substr(begin, at_ - begin);
  return {};
}

Result<void> CsvReader::read_quoted(std::string& field) {
  ++at_;
  while (at_ < text_.size()) {
    const char c = text_[at_++];
    if (c == '\n') ++line_;
    if (c != '"') {
      field.push_back(c);
    } else if (at_ < text_.size() && text_[at_] == '"') {
      field.push_back('"');
      ++at_;
    } else if (at_line_end() || text_[at_] == ',') {
      return {};
    } else {
      return Failure{ErrorCode::kCorruptData, "text behind the quote that ends a field"};
    }
  }
  return Failure{ErrorCode::kCorruptData, "a quote that is never closed"};
}

}  // namespace feedrace::formats
