// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/format.h"
#include "feedrace/formats/shard_index.h"

namespace feedrace::formats {

/// The samples of WebDataset shards, by their index.
///
/// Two numbers count samples: the data set's own, `sample`, of those that have an image; and
/// `entry`, of all, which the calls below the interface's take. `entry_of` leads from one to the
/// other; both follow the order of the shards.
class ShardSet : public Dataset {
 public:
  struct Field {
    std::string_view name;
    std::uint64_t offset_bytes = 0;
    std::uint64_t size_bytes = 0;
  };

  /// `notices` are warnings about the index itself, in front of those about the shards;
  /// `index_path` is where it is stored; `sources` are what the user named, as words of a command;
  /// `classes` are the names of the labels in their cls fields, or empty.
  ShardSet(std::vector<std::string> paths, ShardIndex index, const OpenOptions& options,
           std::vector<std::string> notices, std::string index_path, std::string sources,
           std::vector<std::string> classes);

  std::string_view kind() const noexcept override { return "webdataset shards"; }
  std::uint64_t size() const noexcept override { return index_.meta().image_count; }
  /// Size 0 where a damaged index leads nowhere; reading such a sample fails and names it.
  Place place(std::uint64_t sample) const noexcept override;
  std::string path(std::uint64_t sample) const override;
  std::string key(std::uint64_t sample) const override;
  Result<std::int64_t> label(std::uint64_t sample) const override;
  std::string where(std::uint64_t sample) const override;
  const std::vector<std::string>& shards() const noexcept override { return paths_; }
  const std::vector<std::string>& classes() const noexcept override { return classes_; }
  const std::vector<std::string>& warnings() const noexcept override { return warnings_; }
  std::string fingerprint() const override { return index_.meta().fingerprint; }
  std::string key_fingerprint() const override { return index_.meta().key_fingerprint; }
  std::string key_set_fingerprint() const override { return index_.meta().key_set_fingerprint; }
  std::span<const std::byte> crop_index(std::uint64_t sample) const noexcept override {
    return index_.crop_index(entry_of(sample));
  }
  std::uint64_t crop_index_count() const noexcept override {
    return index_.meta().crop_index_count();
  }
  std::string crop_index_path() const override {
    return index_.meta().has_crop_indexes() ? index_path_ : "";
  }
  CropIndexGaps crop_index_gaps() const override { return index_.meta().crop_index_gaps(); }
  std::string source_words(std::uint64_t) const override { return sources_; }
  std::vector<Part> parts() const override;
  std::vector<std::string> stored_fields() const override { return index_.meta().fields; }
  std::optional<FieldPlace> field_place(std::uint64_t sample, std::string_view name) const override;
  std::uint64_t max_image_bytes() const noexcept override { return index_.meta().max_image_bytes; }
  double mean_image_bytes() const noexcept override { return index_.meta().mean_image_bytes; }

  std::string label_source() const override { return label_phrase_; }

  /// The folder of the stored index; empty when it is in memory only.
  const std::string& index_path() const noexcept { return index_path_; }
  std::uint64_t entry_count() const noexcept { return index_.sample_count(); }
  std::uint64_t entry_of(std::uint64_t sample) const noexcept {
    return index_.sample_of_image(sample);
  }
  std::string_view entry_key(std::uint64_t entry) const noexcept { return index_.key(entry); }
  std::uint32_t entry_shard(std::uint64_t entry) const noexcept { return index_.shard(entry); }
  /// In the order in which they lie in the shard. Views live as long as the set.
  std::vector<Field> fields(std::uint64_t entry) const;
  /// One field of a sample; nothing when it has none of that name.
  std::optional<Field> field(std::uint64_t entry, std::string_view name) const;
  /// The bytes of a field that is small, as those with labels are, for messages. Failures: kIo,
  /// kNotFound, kCorruptData (a field of more than 1 MiB, a shard that became shorter).
  Result<std::string> read_small(std::uint64_t entry, const Field& field) const;
  /// Entries of a shard: [shard_begin(i), shard_begin(i + 1)).
  std::uint64_t shard_begin(std::size_t shard) const noexcept { return index_.shard_begin(shard); }
  /// The entry with this key in this shard, else the one with "./" in front of it, as `tar cf a.tar
  /// .` writes names. Takes time linear in the shard's samples.
  std::optional<std::uint64_t> find(std::size_t shard, std::string_view key) const noexcept;
  /// All field names of the set, in the order of their first appearance.
  const std::vector<std::string>& field_names() const noexcept { return index_.meta().fields; }
  const ShardIndex& index() const noexcept { return index_; }

 private:
  std::optional<ShardIndex::Member> image(std::uint64_t sample) const noexcept;
  Result<std::int64_t> explain_label(std::uint64_t sample) const;
  std::string field_list(std::uint64_t entry) const;
  void gather_warnings(bool looks_for_labels);
  void warn_of_missing_crops(const std::string& place);

  const std::vector<std::string> paths_;
  const ShardIndex index_;
  const LabelSource label_source_;
  const std::string label_file_;
  const std::string label_phrase_;
  const std::string index_path_;
  const std::string sources_;
  const std::vector<std::string> classes_;
  std::vector<std::uint32_t> image_field_numbers_;  // By rank; ~0 for one that the set lacks.
  std::vector<std::string> warnings_;
};

}  // namespace feedrace::formats
