// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/shard_set.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/labels.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/shard_labels.h"
#include "feedrace/formats/tar_reader.h"

namespace feedrace::formats {
namespace {

constexpr std::uint32_t kNoField = ~std::uint32_t{0};
/// Of a label member that is read again for a message.
constexpr std::uint64_t kMaxShownLabelBytes = std::uint64_t{1} << 20;

}  // namespace

ShardSet::ShardSet(std::vector<std::string> paths, ShardIndex index, const OpenOptions& options,
                   std::vector<std::string> notices, std::string index_path, std::string sources,
                   std::vector<std::string> classes)
    : paths_(std::move(paths)),
      index_(std::move(index)),
      label_source_{options.label_file.empty() ? options.label_field : "", options.label_json_key,
                    nullptr},
      label_file_(options.label_file),
      label_phrase_(describe_label_source(index_.meta(), options)),
      index_path_(std::move(index_path)),
      sources_(std::move(sources)),
      // Numbers from elsewhere are others.
      classes_(label_phrase_.starts_with("cls field") ? std::move(classes)
                                                      : std::vector<std::string>()),
      warnings_(std::move(notices)) {
  const std::vector<std::string>& fields = index_.meta().fields;
  for (const std::string& wanted : options.image_fields) {
    const auto found = std::find(fields.begin(), fields.end(), wanted);
    image_field_numbers_.push_back(
        found == fields.end() ? kNoField : static_cast<std::uint32_t>(found - fields.begin()));
  }
  gather_warnings(!options.label_field.empty() || !options.label_file.empty());
}

void ShardSet::gather_warnings(bool looks_for_labels) {
  const IndexMeta& meta = index_.meta();
  Findings all;
  for (const IndexMeta::Shard& shard : meta.shards) all.merge(shard.findings, shard.name);
  const std::string place = folder_of(paths_[0]);
  for (std::string& line : all.lines(place)) warnings_.push_back(std::move(line));
  if (meta.image_count < meta.sample_count && meta.image_count > 0) {
    warnings_.push_back(fmt::format(
        "{}: {} of {} samples left out, as they have no image field", printable(place),
        with_commas(meta.sample_count - meta.image_count), with_commas(meta.sample_count)));
  }
  warn_of_missing_crops(place);
  const bool labelled = has_labels(meta);
  if (!labelled && looks_for_labels && meta.image_count > 0) {
    warnings_.push_back(
        fmt::format("{}: no labels: every label is -1; pack a .cls member with each image, name "
                    "the field that holds the label in label_field, or give a label_file",
                    printable(place)));
  }
  if (labelled && meta.unlabelled_count > 0) {
    warnings_.push_back(fmt::format("{}: {} of {} samples have no label; reading one is an error",
                                    printable(place), with_commas(meta.unlabelled_count),
                                    with_commas(meta.image_count)));
  }
  if (meta.bad_label_count > 0) {
    warnings_.push_back(fmt::format(
        "{}: {} of {} samples have a label that is no whole number; reading one is an error",
        printable(place), with_commas(meta.bad_label_count), with_commas(meta.image_count)));
  }
}

/// Shards that came or changed since crop indexes were made of the others.
void ShardSet::warn_of_missing_crops(const std::string& place) {
  const std::vector<IndexMeta::Shard>& shards = index_.meta().shards;
  const auto missing = std::count_if(shards.begin(), shards.end(), [](const auto& shard) {
    return !shard.crop_index_count.has_value();
  });
  if (missing == 0 || !index_.meta().has_crop_indexes()) return;
  warnings_.push_back(fmt::format(
      "{}: {} of {} shards have no crop index, as they are new or changed; make it with feedrace "
      "index {} --crop-index",
      printable(place), missing, shards.size(), sources_));
}

std::optional<ShardIndex::Member> ShardSet::image(std::uint64_t sample) const noexcept {
  const auto [begin, end] = index_.members(entry_of(sample));
  for (const std::uint32_t wanted : image_field_numbers_) {
    if (wanted == kNoField) continue;
    for (std::uint64_t m = begin; m < end; ++m) {
      const ShardIndex::Member member = index_.member(m);
      if (member.field == wanted) return member;
    }
  }
  return std::nullopt;
}

Place ShardSet::place(std::uint64_t sample) const noexcept {
  const std::uint32_t shard = index_.shard(entry_of(sample));
  const auto member = image(sample);
  if (!member || shard >= paths_.size()) return {0, 0, 0};
  const std::uint64_t end = index_.meta().shards[shard].identity.size_bytes;
  const bool inside =
      member->offset_bytes <= end && member->size_bytes <= end - member->offset_bytes;
  if (!inside) return {shard, 0, 0};
  return {shard, member->offset_bytes, member->size_bytes};
}

std::optional<FieldPlace> ShardSet::field_place(std::uint64_t sample, std::string_view name) const {
  const std::uint64_t entry = entry_of(sample);
  const std::uint32_t shard = index_.shard(entry);
  const std::optional<Field> found = field(entry, name);
  if (!found || shard >= paths_.size()) return std::nullopt;
  const std::uint64_t end = index_.meta().shards[shard].identity.size_bytes;
  const bool inside = found->offset_bytes <= end && found->size_bytes <= end - found->offset_bytes;
  if (!inside) return std::nullopt;
  return FieldPlace{found->offset_bytes, found->size_bytes};
}

std::string ShardSet::path(std::uint64_t sample) const { return paths_[place(sample).shard]; }

std::string ShardSet::key(std::uint64_t sample) const {
  return std::string(index_.key(entry_of(sample)));
}

std::vector<Part> ShardSet::parts() const {
  std::vector<Part> parts;
  std::uint64_t first = 0;
  for (const IndexMeta::Shard& shard : index_.meta().shards) {
    parts.push_back({shard.name, first, shard.digest});
    first += shard.image_count;
  }
  return parts;
}

Result<std::int64_t> ShardSet::label(std::uint64_t sample) const {
  const std::uint64_t entry = entry_of(sample);
  if (index_.label_state(entry) == LabelState::kOk) return index_.label(entry);
  if (!has_labels(index_.meta())) return std::int64_t{-1};
  return explain_label(sample);
}

/// Why a sample has no good label; reads a bad one again, to show it.
Result<std::int64_t> ShardSet::explain_label(std::uint64_t sample) const {
  const std::uint64_t entry = entry_of(sample);
  const auto fail = [&](const std::string& what) {
    return Failure{ErrorCode::kCorruptData, fmt::format("{}: {}", where(sample), what)};
  };
  if (!label_file_.empty()) {
    return fail(fmt::format("no label in {}; add its key, or leave the sample out",
                            printable(label_file_)));
  }
  if (index_.label_state(entry) == LabelState::kMissing) {
    return fail(
        fmt::format("no label, though other samples have one: fields are {}; add it, or leave "
                    "the sample out",
                    field_list(entry)));
  }
  std::optional<Field> best;
  for (const Field& one : fields(entry)) {
    const int rank = label_source_.rank(one.name);
    if (rank > (best ? label_source_.rank(best->name) : 0)) best = one;
  }
  if (!best || best->size_bytes > kMaxShownLabelBytes) return fail("label is not a whole number");
  const Result<std::string> text = read_small(entry, *best);
  if (!text) return text.error();
  std::string reason = "changed since it was indexed";
  if (is_json_field(best->name)) {
    const Result<JsonLabel> parsed = parse_json_label(*text, label_source_.json_key);
    if (!parsed) reason = parsed.error().message;
  } else {
    const Result<std::int64_t> parsed = parse_label(*text);
    if (!parsed) reason = parsed.error().message;
  }
  return fail(fmt::format("field {}: {}", printable(best->name), reason));
}

std::string ShardSet::field_list(std::uint64_t entry) const {
  std::vector<std::string> names;
  for (const Field& one : fields(entry)) names.emplace_back(one.name);
  return listed(names);
}

std::string ShardSet::where(std::uint64_t sample) const {
  const std::uint64_t entry = entry_of(sample);
  const Place at = place(sample);
  std::string name = printable(index_.key(entry));
  const auto member = image(sample);
  if (member && member->field < field_names().size()) {
    name += "." + printable(field_names()[member->field]);
  }
  return fmt::format("{}: sample {} (offset {}, {} bytes)", printable(base_name(paths_[at.shard])),
                     name, at.offset_bytes, at.size_bytes);
}

std::vector<ShardSet::Field> ShardSet::fields(std::uint64_t entry) const {
  std::vector<Field> list;
  const auto [begin, end] = index_.members(entry);
  for (std::uint64_t m = begin; m < end; ++m) {
    const ShardIndex::Member member = index_.member(m);
    if (member.field >= field_names().size()) continue;
    list.push_back({field_names()[member.field], member.offset_bytes, member.size_bytes});
  }
  return list;
}

std::optional<ShardSet::Field> ShardSet::field(std::uint64_t entry, std::string_view name) const {
  for (const Field& one : fields(entry)) {
    if (one.name == name) return one;
  }
  return std::nullopt;
}

Result<std::string> ShardSet::read_small(std::uint64_t entry, const Field& field) const {
  const std::uint32_t shard = index_.shard(entry);
  if (shard >= paths_.size() || field.size_bytes > kMaxShownLabelBytes) {
    return Failure{ErrorCode::kCorruptData,
                   fmt::format("field {} of {} can't be shown: {} bytes", printable(field.name),
                               printable(index_.key(entry)), field.size_bytes)};
  }
  const Result<Fd> fd = open_for_reading(paths_[shard]);
  if (!fd) return fd.error();
  std::string text(static_cast<std::size_t>(field.size_bytes), '\0');
  const Result<std::size_t> got = read_at(fd->get(), paths_[shard], field.offset_bytes, text);
  if (!got) return got.error();
  if (*got != text.size()) {
    return Failure{ErrorCode::kCorruptData, fmt::format("{}: became shorter since it was indexed",
                                                        printable(paths_[shard]))};
  }
  return text;
}

std::optional<std::uint64_t> ShardSet::find(std::size_t shard,
                                            std::string_view key) const noexcept {
  if (shard >= paths_.size()) return std::nullopt;
  std::optional<std::uint64_t> dotted;
  for (std::uint64_t i = shard_begin(shard); i < shard_begin(shard + 1); ++i) {
    const std::string_view found = index_.key(i);
    if (found == key) return i;
    if (!dotted && found.starts_with("./") && found.substr(2) == key) dotted = i;
  }
  return dotted;
}

}  // namespace feedrace::formats
