// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/file_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/text.h"
#include "feedrace/formats/csv.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/key_digest.h"
#include "feedrace/formats/labels.h"
#include "feedrace/formats/list_lines.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::formats {
namespace {

[[noreturn]] void fail_line(const std::string& path, std::uint64_t line, std::string_view what) {
  throw Error(ErrorCode::kCorruptData, fmt::format("{}: line {}: {}", printable(path), line, what));
}

bool has_ending(std::string_view path, std::string_view ending) {
  if (path.size() < ending.size()) return false;
  const std::string_view tail = path.substr(path.size() - ending.size());
  return std::equal(tail.begin(), tail.end(), ending.begin(),
                    [](char a, char b) { return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) == b; });
}

void check_path(std::string_view entry, const std::string& path, std::uint64_t line) {
  if (entry.empty()) fail_line(path, line, "the path is empty");
  if (entry.find('\0') != std::string_view::npos) {
    fail_line(path, line, "the path holds a NUL byte; no path does");
  }
}

ListEntries parse_plain(std::string_view content, const std::string& path) {
  ListEntries entries;
  for_each_line(content, path, [&](std::string_view line, std::uint64_t number) {
    const auto [entry, label] = split_list_line(line, path, number);
    entries.add(entry);
    entries.labels.push_back(label);
  });
  return entries;
}

/// Which columns of a CSV file are which.
struct Columns {
  std::size_t path = 0;
  std::optional<std::size_t> label = 1;
  std::size_t count = 2;
};

/// What the first row says if it is a heading.
std::optional<Columns> heading_of(const std::vector<std::string>& row) {
  Columns columns{row.size(), std::nullopt, row.size()};
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (has_ending(row[i], "path") && row[i].size() == 4) columns.path = i;
    if (has_ending(row[i], "label") && row[i].size() == 5) columns.label = i;
  }
  if (columns.path == row.size()) return std::nullopt;
  return columns;
}

ListEntries parse_csv(std::string_view content, const std::string& path) {
  ListEntries entries;
  Columns columns;
  bool is_first = true;
  CsvReader reader(content);
  std::vector<std::string> row;
  while (true) {
    const Result<bool> found = reader.next(row);
    if (!found) fail_line(path, reader.line(), found.error().message);
    if (!*found) return entries;
    if (std::exchange(is_first, false)) {
      if (const auto heading = heading_of(row)) {
        columns = *heading;
        continue;
      }
    }
    if (row.size() != columns.count) {
      fail_line(path, reader.line(),
                fmt::format("{} where {} expected; write path,label, with \"\" around a path that "
                            "holds a comma",
                            counted(row.size(), "field"),
                            columns.count == 1 ? "1 is" : std::to_string(columns.count) + " are"));
    }
    check_path(row[columns.path], path, reader.line());
    entries.add(row[columns.path]);
    if (!columns.label) continue;
    const Result<std::int64_t> label = parse_label(row[*columns.label]);
    if (!label) fail_line(path, reader.line(), label.error().message);
    entries.labels.push_back(*label);
  }
}

ListEntries parse_jsonl(std::string_view content, const std::string& path) {
  ListEntries entries;
  for_each_line(content, path, [&](std::string_view line, std::uint64_t number) {
    const Result<nlohmann::json> document = parse_json(line);
    if (!document) fail_line(path, number, document.error().message);
    const auto found = document->is_object() ? document->find("path") : document->end();
    if (found == document->end() || !found->is_string()) {
      fail_line(path, number,
                "no member \"path\" that is a text; write {\"path\": ..., \"label\": ...}");
    }
    const auto& entry = found->get_ref<const std::string&>();
    check_path(entry, path, number);
    const Result<JsonLabel> label = parse_json_label(line, "label");
    if (!label) fail_line(path, number, label.error().message);
    const bool others_have = !entries.labels.empty();
    if (entries.size() > 0 && label->found != others_have) {
      fail_line(path, number,
                others_have ? "no label, though the lines before have one"
                            : "a label, though the lines before have none");
    }
    entries.add(entry);
    if (label->found) entries.labels.push_back(label->value);
  });
  return entries;
}

class FileList : public Dataset {
 public:
  FileList(const std::string& path, ListEntries entries)
      : folder_(folder_of(path)), name_(path), entries_(std::move(entries)) {
    Fingerprint fingerprint;
    KeyDigest keys;
    const LabelState state = entries_.labels.empty() ? LabelState::kMissing : LabelState::kOk;
    for (std::uint64_t i = 0; i < size(); ++i) {
      fingerprint.add_bytes(entries_.path(i));
      fingerprint.add_number(static_cast<std::uint64_t>(label_of(i)));
      keys.add(entries_.path(i), state, label_of(i));
    }
    fingerprint_ = fingerprint.text();
    key_fingerprint_ = keys.in_order();
    key_set_fingerprint_ = keys.as_set();
    if (entries_.labels.empty()) {
      warnings_.push_back(fmt::format(
          "{}: no labels: every label is -1; {}", printable(path),
          has_ending(path, ".csv") ? "add a column label" : "add a member \"label\" to each line"));
    }
  }

  std::string_view kind() const noexcept override { return "file list"; }
  std::uint64_t size() const noexcept override { return entries_.size(); }
  Place place(std::uint64_t) const noexcept override { return {}; }
  std::string path(std::uint64_t sample) const override {
    const std::string_view entry = entries_.path(sample);
    if (entry.starts_with('/')) return std::string(entry);
    return fmt::format("{}{}{}", folder_, folder_.ends_with('/') ? "" : "/", entry);
  }
  std::string key(std::uint64_t sample) const override {
    return std::string(entries_.path(sample));
  }
  Result<std::int64_t> label(std::uint64_t sample) const override { return label_of(sample); }
  std::string where(std::uint64_t sample) const override { return printable(path(sample)); }

  const std::vector<std::string>& shards() const noexcept override { return none_; }
  const std::vector<std::string>& classes() const noexcept override { return none_; }
  const std::vector<std::string>& warnings() const noexcept override { return warnings_; }
  std::string fingerprint() const override { return fingerprint_; }
  std::string key_fingerprint() const override { return key_fingerprint_; }
  std::string key_set_fingerprint() const override { return key_set_fingerprint_; }
  std::uint64_t max_image_bytes() const noexcept override { return Place::kUnknownSize; }
  double mean_image_bytes() const noexcept override { return 0; }
  std::string label_source() const override {
    return entries_.labels.empty() ? "none: every label is -1" : "list";
  }

 private:
  std::int64_t label_of(std::uint64_t sample) const noexcept {
    return entries_.labels.empty() ? -1 : entries_.labels[sample];
  }

  const std::string folder_;
  const std::string name_;
  const ListEntries entries_;
  const std::vector<std::string> none_;
  std::vector<std::string> warnings_;
  std::string fingerprint_;
  std::string key_fingerprint_;
  std::string key_set_fingerprint_;
};

}  // namespace

void ListEntries::add(std::string_view path) {
  paths += path;
  begins.push_back(paths.size());
}

ListEntries parse_list(std::string_view content, const std::string& path) {
  ListEntries entries;
  if (has_ending(path, ".csv")) {
    entries = parse_csv(content, path);
  } else if (has_ending(path, ".jsonl")) {
    entries = parse_jsonl(content, path);
  } else {
    entries = parse_plain(content, path);
  }
  if (entries.size() == 0) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("{}: no entries in the list ({} bytes); write one path and label a line",
                    printable(path), content.size()));
  }
  return entries;
}

bool FileListFormat::accepts(const std::vector<std::string>& sources) const {
  constexpr std::array<std::string_view, 4> kEndings = {".csv", ".jsonl", ".txt", ".lst"};
  struct stat status{};
  return sources.size() == 1 && stat(sources[0].c_str(), &status) == 0 && S_ISREG(status.st_mode) &&
         std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return has_ending(sources[0], ending); });
}

std::unique_ptr<Dataset> FileListFormat::open(const std::vector<std::string>& sources,
                                              const OpenOptions& options) const {
  const std::string& path = sources.at(0);
  if (options.make_crop_index) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: a list has no crop index; give its image folder or tar shards",
                            printable(path)));
  }
  if (!options.label_file.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: label_file is given, but a list holds its own labels; leave "
                            "label_file out",
                            printable(path)));
  }
  return std::make_unique<FileList>(path, parse_list(read_list_file(path), path));
}

}  // namespace feedrace::formats
