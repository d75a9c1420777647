// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/shard_labels.h"

#include <algorithm>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/text.h"
#include "feedrace/formats/labels.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/shard_scan.h"

namespace feedrace::formats {
namespace {

/// The first sample with an image that has the field, as an entry; takes time linear in the set.
std::optional<std::uint64_t> first_with_field(const ShardSet& set, const std::string& name) {
  for (std::uint64_t i = 0; i < set.size(); ++i) {
    if (set.field(set.entry_of(i), name)) return set.entry_of(i);
  }
  return std::nullopt;
}

/// "; that of sample 000 has: caption, url", or nothing where it can't be told.
std::string json_members(const ShardSet& set, std::uint64_t entry, const std::string& field) {
  const Result<std::string> text = set.read_small(entry, *set.field(entry, field));
  if (!text) return "";
  const Result<nlohmann::json> document = parse_json(*text);
  if (!document) return "";
  const std::string sample = printable(set.entry_key(entry));
  if (!document->is_object()) return fmt::format("; that of sample {} is no object", sample);
  std::vector<std::string> names;
  for (const auto& member : document->items()) names.push_back(member.key());
  return fmt::format("; that of sample {} has: {}", sample, names.empty() ? "none" : listed(names));
}

std::string explain_label_file(const ShardSet& set, const std::string& path) {
  const LabelMap labels = read_label_file(path);
  if (labels.empty()) {
    return fmt::format("label_file {} is empty; write a line \"key label\" for each sample",
                       printable(path));
  }
  const auto first = std::min_element(
      labels.begin(), labels.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return fmt::format(
      "label_file {}: 0 of {} matched: it has such as {}, the shards such as {}; write keys as the "
      "shards have them",
      printable(path), counted(labels.size(), "key"), printable(first->first),
      printable(set.key(0)));
}

std::string explain_field(const ShardSet& set, const OpenOptions& options) {
  const bool is_auto = options.label_field == "auto";  // Then it is the JSON key that was named.
  const std::string field = is_auto ? "json" : options.label_field;
  const std::string images = counted(set.size(), "image");
  const auto entry = first_with_field(set, field);
  if (!entry) {
    return fmt::format(
        "{}: none of {} has a field {}; fields found: {}; name the one that holds "
        "the label in label_field",
        is_auto ? "label_json_key " + printable(options.label_json_key)
                : "label_field " + printable(field),
        images, printable(field), listed(set.field_names()));
  }
  return fmt::format(
      "label_json_key {}: no such member in the {} field of any of {}{}; name the "
      "one that holds the label",
      printable(options.label_json_key), printable(field), images,
      json_members(set, *entry, field));
}

}  // namespace

bool has_labels(const IndexMeta& meta) noexcept {
  return meta.labelled_count + meta.bad_label_count > 0;
}

std::string describe_label_source(const IndexMeta& meta, const OpenOptions& options) {
  if (!has_labels(meta)) return "none: every label is -1";
  if (!options.label_file.empty()) return "label file " + printable(base_name(options.label_file));
  const auto one = [&](const std::string& field) {
    if (!is_json_field(field)) return printable(field) + " field";
    return fmt::format("{} field, key \"{}\"", printable(field), printable(options.label_json_key));
  };
  if (options.label_field != "auto") return one(options.label_field);
  const auto there = [&](const char* field) {
    return std::find(meta.fields.begin(), meta.fields.end(), field) != meta.fields.end();
  };
  if (there("cls") && there("json")) return one("cls") + ", else " + one("json");
  return one(there("cls") ? "cls" : "json");
}

void require_named_labels(const ShardSet& set, const OpenOptions& options) {
  if (set.size() == 0 || has_labels(set.index().meta())) return;
  const std::vector<std::string>& shards = set.shards();
  const std::string place = printable(shards.size() == 1 ? shards[0] : folder_of(shards[0]));
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: no sample gets a label: {}", place, what));
  };
  if (!options.label_file.empty()) refuse(explain_label_file(set, options.label_file));
  const bool names_key = options.label_json_key != OpenOptions{}.label_json_key;
  const bool names_field = options.label_field != "auto";
  if (!options.label_field.empty() && (names_field || names_key)) {
    refuse(explain_field(set, options));
  }
}

}  // namespace feedrace::formats
