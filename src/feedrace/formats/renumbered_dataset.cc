// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/renumbered_dataset.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/phrases.h"

namespace feedrace::formats {
namespace {

class RenumberedDataset : public Dataset {
 public:
  RenumberedDataset(std::shared_ptr<const Dataset> dataset, std::vector<std::uint64_t> numbers,
                    std::string key_fingerprint)
      : dataset_(std::move(dataset)),
        numbers_(std::move(numbers)),
        key_fingerprint_(std::move(key_fingerprint)) {}

  std::string_view kind() const noexcept override { return dataset_->kind(); }
  std::uint64_t size() const noexcept override { return numbers_.size(); }
  Place place(std::uint64_t sample) const noexcept override {
    return dataset_->place(numbers_[sample]);
  }
  std::string path(std::uint64_t sample) const override { return dataset_->path(numbers_[sample]); }
  std::string key(std::uint64_t sample) const override { return dataset_->key(numbers_[sample]); }
  Result<std::int64_t> label(std::uint64_t sample) const override {
    return dataset_->label(numbers_[sample]);
  }
  std::string where(std::uint64_t sample) const override {
    return dataset_->where(numbers_[sample]);
  }
  const std::vector<std::string>& shards() const noexcept override { return dataset_->shards(); }
  const std::vector<std::string>& classes() const noexcept override { return dataset_->classes(); }
  const std::vector<std::string>& warnings() const noexcept override {
    return dataset_->warnings();
  }
  std::string fingerprint() const override {
    Fingerprint both;
    both.add_bytes(dataset_->fingerprint());
    both.add_bytes(key_fingerprint_);
    return both.text();
  }
  std::string key_fingerprint() const override { return key_fingerprint_; }
  std::string key_set_fingerprint() const override { return dataset_->key_set_fingerprint(); }
  std::vector<std::string> stored_fields() const override { return dataset_->stored_fields(); }
  std::optional<FieldPlace> field_place(std::uint64_t sample,
                                        std::string_view name) const override {
    return dataset_->field_place(numbers_[sample], name);
  }
  std::span<const std::byte> crop_index(std::uint64_t sample) const noexcept override {
    return dataset_->crop_index(numbers_[sample]);
  }
  std::uint64_t crop_index_count() const noexcept override { return dataset_->crop_index_count(); }
  std::string crop_index_path() const override { return dataset_->crop_index_path(); }
  CropIndexGaps crop_index_gaps() const override { return dataset_->crop_index_gaps(); }
  std::string source_words(std::uint64_t sample) const override {
    return dataset_->source_words(numbers_[sample]);
  }
  std::uint64_t max_image_bytes() const noexcept override { return dataset_->max_image_bytes(); }
  double mean_image_bytes() const noexcept override { return dataset_->mean_image_bytes(); }
  std::string label_source() const override { return dataset_->label_source(); }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<std::uint64_t> numbers_;  // In `dataset_`, by number in the reference.
  const std::string key_fingerprint_;
};

/// A sample's canonical key, shown.
std::string shown_key(const Dataset& set, std::uint64_t sample) {
  return printable(canonical_key(set.key(sample)));
}

/// Finds samples by canonical key.
class KeyLookup {
 public:
  explicit KeyLookup(const Dataset& set) : set_(set) {
    hashes_.reserve(static_cast<std::size_t>(set.size()));
    for (std::uint64_t i = 0; i < set.size(); ++i) {
      hashes_.push_back({hash_of(canonical_key(set.key(i))), i});
    }
    std::sort(hashes_.begin(), hashes_.end());
  }

  std::optional<std::uint64_t> find(std::string_view canonical) const {
    const std::uint64_t hash = hash_of(canonical);
    auto at = std::lower_bound(hashes_.begin(), hashes_.end(), std::pair{hash, std::uint64_t{0}});
    for (; at != hashes_.end() && at->first == hash; ++at) {
      if (canonical_key(set_.key(at->second)) == canonical) return at->second;
    }
    return std::nullopt;
  }

  /// A sample whose key another one before it has, too.
  std::optional<std::uint64_t> double_key() const {
    for (std::size_t i = 1; i < hashes_.size(); ++i) {
      if (hashes_[i].first != hashes_[i - 1].first) continue;
      const std::string key = set_.key(hashes_[i].second);
      if (find(canonical_key(key)) != hashes_[i].second) return hashes_[i].second;
    }
    return std::nullopt;
  }

 private:
  const Dataset& set_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> hashes_;  // Hash, sample; sorted.
};

/// Matches the samples of two sets.
class Matching {
 public:
  Matching(const Dataset& dataset, const Dataset& reference)
      : dataset_(dataset), reference_(reference) {}

  /// For each sample of the reference its number in the data set. Throws Error kInvalidArgument.
  std::vector<std::uint64_t> numbers() const {
    require_same_count();
    require_labels_in_both();
    std::vector<std::uint64_t> numbers = match_keys();
    require_same_labels(numbers);
    return numbers;
  }

 private:
  [[noreturn]] void refuse(std::string_view found) const {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} numbered like another set ({}): {}", dataset_.kind(),
                            reference_.kind(), found));
  }

  void require_same_count() const {
    if (dataset_.size() == reference_.size()) return;
    refuse(fmt::format("it has {}, the other {}; give sets of the same samples",
                       counted(dataset_.size(), "sample"), with_commas(reference_.size())));
  }

  void require_labels_in_both() const {
    const auto has_none = [](const Dataset& set) { return set.label_source().starts_with("none"); };
    if (has_none(dataset_) == has_none(reference_)) return;
    const bool lacks_own = has_none(dataset_);
    refuse(
        fmt::format("{} no labels, {} labels (from: {}); give both their labels, such as by a "
                    "label_file, or neither",
                    lacks_own ? "it has" : "the other has", lacks_own ? "the other has" : "it has",
                    (lacks_own ? reference_ : dataset_).label_source()));
  }

  std::vector<std::uint64_t> match_keys() const {
    const KeyLookup lookup(dataset_);
    if (const auto twice = lookup.double_key()) {
      refuse(fmt::format("key {} comes twice in it; give each sample a key of its own",
                         shown_key(dataset_, *twice)));
    }
    std::vector<std::uint64_t> numbers;
    numbers.reserve(static_cast<std::size_t>(reference_.size()));
    std::vector<bool> is_taken(static_cast<std::size_t>(dataset_.size()));
    std::optional<std::uint64_t> missing;
    std::uint64_t missing_count = 0;
    for (std::uint64_t i = 0; i < reference_.size(); ++i) {
      const std::string key = reference_.key(i);
      const auto found = lookup.find(canonical_key(key));
      if (!found) {
        ++missing_count;
        if (!missing) missing = i;
        continue;
      }
      if (is_taken[static_cast<std::size_t>(*found)]) {
        refuse(fmt::format("key {} comes twice in the other; give each sample a key of its own",
                           shown_key(reference_, i)));
      }
      is_taken[static_cast<std::size_t>(*found)] = true;
      numbers.push_back(*found);
    }
    if (missing) refuse_missing(*missing, missing_count, is_taken);
    return numbers;
  }

  [[noreturn]] void refuse_missing(std::uint64_t missing, std::uint64_t count,
                                   const std::vector<bool>& is_taken) const {
    const auto spare = static_cast<std::uint64_t>(
        std::find(is_taken.begin(), is_taken.end(), false) - is_taken.begin());
    refuse(fmt::format(
        "it lacks {} of the other's {}, such as {}, and has instead such as {}; give sets of the "
        "same samples, with names that agree up to the first dot",
        with_commas(count), counted(reference_.size(), "key"), shown_key(reference_, missing),
        shown_key(dataset_, spare)));
  }

  void require_same_labels(std::span<const std::uint64_t> numbers) const {
    const auto text = [](const Result<std::int64_t>& label) {
      return label ? fmt::format("label {}", *label) : std::string("no good label");
    };
    for (std::uint64_t i = 0; i < numbers.size(); ++i) {
      const Result<std::int64_t> ours = dataset_.label(numbers[i]);
      const Result<std::int64_t> theirs = reference_.label(i);
      if (ours ? theirs && *ours == *theirs : !theirs) continue;
      refuse(fmt::format("key {} has {} in it and {} in the other; give both the same labels",
                         shown_key(reference_, i), text(ours), text(theirs)));
    }
  }

  const Dataset& dataset_;
  const Dataset& reference_;
};

}  // namespace

std::shared_ptr<const Dataset> number_like(std::shared_ptr<const Dataset> dataset,
                                           const Dataset& reference) {
  std::vector<std::uint64_t> numbers = Matching(*dataset, reference).numbers();
  return std::make_shared<RenumberedDataset>(std::move(dataset), std::move(numbers),
                                             reference.key_fingerprint());
}

}  // namespace feedrace::formats
