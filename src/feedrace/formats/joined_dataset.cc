// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/joined_dataset.h"

#include <algorithm>
#include <cassert>
#include <functional>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/crop_columns.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/phrases.h"

namespace feedrace::formats {
namespace {

/// The texts of all sets behind each other; each only once if `distinct`.
std::vector<std::string> of_each(const std::vector<NamedSet>& sets, bool distinct,
                                 const std::function<std::string(const NamedSet&)>& text_of) {
  std::vector<std::string> texts;
  for (const NamedSet& one : sets) {
    std::string text = text_of(one);
    const bool is_new = std::find(texts.begin(), texts.end(), text) == texts.end();
    if (is_new || !distinct) texts.push_back(std::move(text));
  }
  return texts;
}

/// Where each of `own` stands in `all`, which is sorted and holds every one.
std::vector<std::int64_t> numbers_in(const std::vector<std::string>& all,
                                     const std::vector<std::string>& own) {
  std::vector<std::int64_t> numbers;
  numbers.reserve(own.size());
  for (const std::string& name : own) {
    numbers.push_back(std::lower_bound(all.begin(), all.end(), name) - all.begin());
  }
  return numbers;
}

/// The first own number that becomes another one; `numbers.size()` when none does.
std::size_t first_moved(const std::vector<std::int64_t>& numbers) {
  std::size_t i = 0;
  while (i < numbers.size() && numbers[i] == static_cast<std::int64_t>(i)) ++i;
  return i;
}

/// That numbers of a set of which class `moved` is the first to get another number differ now.
std::string renumbered(const NamedSet& one, const std::vector<std::int64_t>& numbers,
                       std::size_t moved, std::size_t class_count) {
  return fmt::format(
      "{}: labels are not the set's own: the classes of all sets, {} by name, are numbered anew, "
      "such as {} from {} to {}",
      printable(one.name), with_commas(class_count), printable(one.set->classes()[moved]), moved,
      numbers[moved]);
}

void require_same_kind_of_classes(const std::vector<NamedSet>& sets) {
  const auto has_names = [](const NamedSet& one) { return !one.set->classes().empty(); };
  const auto named = std::find_if(sets.begin(), sets.end(), has_names);
  const auto bare = std::find_if_not(sets.begin(), sets.end(), has_names);
  if (named == sets.end() || bare == sets.end()) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("data sets {0} and {1}: {0} names its classes (labels: {2}) and {1} has only "
                  "numbers (labels: {3}), which need not mean the same; give all as class folders, "
                  "or all as shards or lists with the same numbers",
                  printable(named->name), printable(bare->name), named->set->label_source(),
                  bare->set->label_source()));
}

}  // namespace

JoinedDataset::JoinedDataset(std::vector<NamedSet> sets) : sets_(std::move(sets)) {
  place_sets();
  join_classes();
  gather_warnings();
  take_fingerprints();
  take_sizes();
  const auto kinds =
      of_each(sets_, true, [](const NamedSet& one) { return std::string(one.set->kind()); });
  kind_ = fmt::format("{}: {}", counted(sets_.size(), "data set"), fmt::join(kinds, ", "));
}

void JoinedDataset::place_sets() {
  first_sample_.push_back(0);
  for (const NamedSet& one : sets_) {
    first_sample_.push_back(first_sample_.back() + one.set->size());
    first_shard_.push_back(static_cast<std::uint32_t>(shards_.size()));
    shards_.insert(shards_.end(), one.set->shards().begin(), one.set->shards().end());
  }
}

void JoinedDataset::join_classes() {
  for (const NamedSet& one : sets_) {
    classes_.insert(classes_.end(), one.set->classes().begin(), one.set->classes().end());
  }
  std::sort(classes_.begin(), classes_.end());
  classes_.erase(std::unique(classes_.begin(), classes_.end()), classes_.end());
  for (const NamedSet& one : sets_) {
    class_numbers_.push_back(numbers_in(classes_, one.set->classes()));
  }
}

void JoinedDataset::gather_warnings() {
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    for (const std::string& line : sets_[i].set->warnings()) {
      warnings_.push_back(fmt::format("{}: {}", printable(sets_[i].name), line));
    }
    const std::size_t moved = first_moved(class_numbers_[i]);
    if (moved < class_numbers_[i].size()) {
      warnings_.push_back(renumbered(sets_[i], class_numbers_[i], moved, classes_.size()));
    }
  }
}

void JoinedDataset::take_fingerprints() {
  // A set's own fingerprints tell nothing of numbers that change with another set's classes.
  const auto hash_all = [&](std::string (Dataset::*fingerprint_of)() const) -> std::string {
    Fingerprint all;
    for (std::size_t i = 0; i < sets_.size(); ++i) {
      const std::string text = (*sets_[i].set.*fingerprint_of)();
      if (text.empty()) return {};
      all.add_bytes(text);
      const std::vector<std::int64_t>& numbers = class_numbers_[i];
      if (first_moved(numbers) == numbers.size()) continue;
      for (const std::int64_t number : numbers) all.add_number(static_cast<std::uint64_t>(number));
    }
    return all.text();
  };
  fingerprint_ = hash_all(&Dataset::fingerprint);
  key_fingerprint_ = hash_all(&Dataset::key_fingerprint);
  std::vector<std::string> key_sets =
      of_each(sets_, false, [](const NamedSet& one) { return one.set->key_set_fingerprint(); });
  std::sort(key_sets.begin(), key_sets.end());
  if (key_sets.front().empty()) return;
  Fingerprint all;
  for (const std::string& text : key_sets) all.add_bytes(text);
  key_set_fingerprint_ = all.text();
}

void JoinedDataset::take_sizes() {
  double bytes = 0;
  for (const NamedSet& one : sets_) {
    if (one.set->max_image_bytes() == Place::kUnknownSize) {
      max_image_bytes_ = Place::kUnknownSize;
      return;
    }
    max_image_bytes_ = std::max(max_image_bytes_, one.set->max_image_bytes());
    bytes += one.set->mean_image_bytes() * static_cast<double>(one.set->size());
  }
  if (size() > 0) mean_image_bytes_ = bytes / static_cast<double>(size());
}

std::size_t JoinedDataset::set_of(std::uint64_t sample) const noexcept {
  // The last set that begins at or before it: sets without samples begin where the next one does.
  const auto behind = std::upper_bound(first_sample_.begin(), first_sample_.end() - 1, sample);
  return static_cast<std::size_t>(behind - first_sample_.begin()) - 1;
}

JoinedDataset::Own JoinedDataset::own(std::uint64_t sample) const noexcept {
  assert(sample < size());
  const std::size_t set = set_of(sample);
  return {*sets_[set].set, sample - first_sample_[set], set};
}

std::vector<std::string> JoinedDataset::stored_fields() const {
  std::set<std::string> names;
  for (const NamedSet& one : sets_) {
    for (std::string& name : one.set->stored_fields()) names.insert(std::move(name));
  }
  return {names.begin(), names.end()};
}

std::optional<FieldPlace> JoinedDataset::field_place(std::uint64_t sample,
                                                     std::string_view name) const {
  const Own own_sample = own(sample);
  return own_sample.set.field_place(own_sample.sample, name);
}

std::uint64_t JoinedDataset::crop_index_count() const noexcept {
  std::uint64_t count = 0;
  for (const NamedSet& one : sets_) count += one.set->crop_index_count();
  return count;
}

CropIndexGaps JoinedDataset::crop_index_gaps() const {
  CropIndexGaps gaps;
  for (const NamedSet& one : sets_) add_gaps(one.set->crop_index_gaps(), gaps);
  return gaps;
}

Place JoinedDataset::place(std::uint64_t sample) const noexcept {
  const Own own_sample = own(sample);
  Place place = own_sample.set.place(own_sample.sample);
  if (place.shard != Place::kOwnFile) place.shard += first_shard_[own_sample.number];
  return place;
}

std::string JoinedDataset::path(std::uint64_t sample) const {
  const Own own_sample = own(sample);
  return own_sample.set.path(own_sample.sample);
}

std::string JoinedDataset::key(std::uint64_t sample) const {
  const Own own_sample = own(sample);
  return own_sample.set.key(own_sample.sample);
}

std::string JoinedDataset::where(std::uint64_t sample) const {
  const Own own_sample = own(sample);
  return own_sample.set.where(own_sample.sample);
}

Result<std::int64_t> JoinedDataset::label(std::uint64_t sample) const {
  const Own own_sample = own(sample);
  Result<std::int64_t> label = own_sample.set.label(own_sample.sample);
  const std::vector<std::int64_t>& numbers = class_numbers_[own_sample.number];
  if (!label || *label == -1 || numbers.empty()) return label;
  const auto index = static_cast<std::size_t>(*label);
  if (*label >= 0 && index < numbers.size()) return numbers[index];
  return Failure{
      ErrorCode::kCorruptData,
      fmt::format("{}: label {} is none of the set's {} classes",
                  own_sample.set.where(own_sample.sample), *label, with_commas(numbers.size()))};
}

std::vector<Part> JoinedDataset::parts() const {
  std::vector<Part> parts;
  for (std::size_t i = 0; i < sets_.size(); ++i) {
    std::vector<Part> own_parts = sets_[i].set->parts();
    for (Part& part : own_parts) {
      parts.push_back({fmt::format("{}/{}", sets_[i].name, part.name),
                       first_sample_[i] + part.first_sample, std::move(part.digest)});
    }
    if (own_parts.empty()) {
      parts.push_back({sets_[i].name, first_sample_[i], sets_[i].set->fingerprint()});
    }
  }
  return parts;
}

std::string JoinedDataset::label_source() const {
  const auto all =
      of_each(sets_, true, [](const NamedSet& one) { return one.set->label_source(); });
  if (all.size() == 1) return all.front();
  const auto named = of_each(sets_, false, [](const NamedSet& one) {
    return fmt::format("{}: {}", printable(one.name), one.set->label_source());
  });
  return fmt::format("{}", fmt::join(named, "; "));
}

std::shared_ptr<const JoinedDataset> join(std::vector<NamedSet> sets) {
  if (sets.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "data sets: none given; name one or more");
  }
  for (const NamedSet& one : sets) {
    if (one.set) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("data set {}: it is null; open it first", printable(one.name)));
  }
  require_same_kind_of_classes(sets);
  return std::make_shared<const JoinedDataset>(std::move(sets));
}

}  // namespace feedrace::formats
