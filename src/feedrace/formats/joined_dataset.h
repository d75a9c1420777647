// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/format.h"

namespace feedrace::formats {

struct NamedSet {
  std::string name;  ///< For messages and parts; two sets may share it.
  std::shared_ptr<const Dataset> set;
};

/// Several data sets as one: the samples of the first, then those of the second, and so on. Holds
/// nothing that grows with the samples.
///
/// Class numbers are those of the union of all class names, in code-point order; where no set has
/// names, each label is what its set says.
class JoinedDataset : public Dataset {
 public:
  explicit JoinedDataset(std::vector<NamedSet> sets);

  std::size_t set_count() const noexcept { return sets_.size(); }
  const std::string& set_name(std::size_t set) const noexcept { return sets_[set].name; }
  /// The set that a sample of the whole comes from.
  std::size_t set_of(std::uint64_t sample) const noexcept;
  /// Number of a set's first sample; `set` may be `set_count()`, for the end of the last.
  std::uint64_t first_sample(std::size_t set) const noexcept { return first_sample_[set]; }

  /// "3 data sets: image folder, webdataset shards".
  std::string_view kind() const noexcept override { return kind_; }
  std::uint64_t size() const noexcept override { return first_sample_.back(); }
  Place place(std::uint64_t sample) const noexcept override;
  std::string path(std::uint64_t sample) const override;
  /// As its set has it; samples of two sets may have the same.
  std::string key(std::uint64_t sample) const override;
  Result<std::int64_t> label(std::uint64_t sample) const override;
  std::string where(std::uint64_t sample) const override;
  const std::vector<std::string>& shards() const noexcept override { return shards_; }
  const std::vector<std::string>& classes() const noexcept override { return classes_; }
  const std::vector<std::string>& warnings() const noexcept override { return warnings_; }
  std::string fingerprint() const override { return fingerprint_; }
  std::string key_fingerprint() const override { return key_fingerprint_; }
  /// Does not depend on the order of the sets either.
  std::string key_set_fingerprint() const override { return key_set_fingerprint_; }
  /// "SET/PART"; a set that has no parts is one, "SET".
  std::vector<Part> parts() const override;
  /// Of all sets, in code-point order.
  std::vector<std::string> stored_fields() const override;
  std::optional<FieldPlace> field_place(std::uint64_t sample, std::string_view name) const override;
  std::span<const std::byte> crop_index(std::uint64_t sample) const noexcept override {
    const Own mine = own(sample);
    return mine.set.crop_index(mine.sample);
  }
  std::uint64_t crop_index_count() const noexcept override;
  CropIndexGaps crop_index_gaps() const override;
  std::string source_words(std::uint64_t sample) const override {
    const Own mine = own(sample);
    return mine.set.source_words(mine.sample);
  }
  std::uint64_t max_image_bytes() const noexcept override { return max_image_bytes_; }
  double mean_image_bytes() const noexcept override { return mean_image_bytes_; }
  /// "a: class folders; b: list", or the one that all have in common.
  std::string label_source() const override;

 private:
  struct Own {
    const Dataset& set;
    std::uint64_t sample;
    std::size_t number;  ///< Of the set.
  };
  Own own(std::uint64_t sample) const noexcept;
  void place_sets();
  void join_classes();
  void gather_warnings();
  void take_fingerprints();
  void take_sizes();

  const std::vector<NamedSet> sets_;
  std::vector<std::uint64_t> first_sample_;  // Of each set, and the number of all.
  std::vector<std::uint32_t> first_shard_;
  std::vector<std::vector<std::int64_t>> class_numbers_;  // By set and own number; empty: the same.
  std::string kind_;
  std::vector<std::string> shards_;
  std::vector<std::string> classes_;
  std::vector<std::string> warnings_;
  std::string fingerprint_;
  std::string key_fingerprint_;
  std::string key_set_fingerprint_;
  std::uint64_t max_image_bytes_ = 0;
  double mean_image_bytes_ = 0;
};

/// Throws Error kInvalidArgument: no set, or sets of which some name their classes and others do
/// not, so that their numbers need not mean the same.
std::shared_ptr<const JoinedDataset> join(std::vector<NamedSet> sets);

}  // namespace feedrace::formats
