// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/format.h"

namespace feedrace::formats {

/// A field that comes along with the image.
struct WantedField {
  std::string name;
  bool is_optional = false;  ///< A sample may lack it.
};

/// A data set whose samples are stretches of their shard that hold the image and further fields:
/// the members of a sample lie one behind the other, so one read serves them all. Everything but
/// places and sizes is that of the data set beneath.
class SampleSpans : public Dataset {
 public:
  /// Throws Error kInvalidArgument: a field that no sample has, a data set without shards.
  SampleSpans(std::shared_ptr<const Dataset> dataset, std::vector<WantedField> fields);

  /// A piece of a sample's bytes, counted from `place(sample)`.
  struct Piece {
    std::uint64_t offset_bytes = 0;
    std::uint64_t size_bytes = 0;
  };
  struct Pieces {
    Piece image;
    std::vector<std::optional<Piece>> fields;  ///< As wanted; nothing: the sample has none.
  };
  /// Failure kCorruptData: a field that is not optional is missing.
  Result<Pieces> pieces(std::uint64_t sample) const;
  const std::vector<WantedField>& wanted() const noexcept { return wanted_; }

  std::string_view kind() const noexcept override { return dataset_->kind(); }
  std::uint64_t size() const noexcept override { return dataset_->size(); }
  Place place(std::uint64_t sample) const noexcept override;
  std::string path(std::uint64_t sample) const override { return dataset_->path(sample); }
  std::string key(std::uint64_t sample) const override { return dataset_->key(sample); }
  Result<std::int64_t> label(std::uint64_t sample) const override {
    return dataset_->label(sample);
  }
  std::string where(std::uint64_t sample) const override { return dataset_->where(sample); }
  const std::vector<std::string>& shards() const noexcept override { return dataset_->shards(); }
  const std::vector<std::string>& classes() const noexcept override { return dataset_->classes(); }
  const std::vector<std::string>& warnings() const noexcept override {
    return dataset_->warnings();
  }
  std::string fingerprint() const override { return dataset_->fingerprint(); }
  std::string key_fingerprint() const override { return dataset_->key_fingerprint(); }
  std::string key_set_fingerprint() const override { return dataset_->key_set_fingerprint(); }
  std::vector<Part> parts() const override { return dataset_->parts(); }
  std::span<const std::byte> crop_index(std::uint64_t sample) const noexcept override {
    return dataset_->crop_index(sample);
  }
  std::uint64_t crop_index_count() const noexcept override { return dataset_->crop_index_count(); }
  std::vector<std::string> stored_fields() const override { return dataset_->stored_fields(); }
  std::optional<FieldPlace> field_place(std::uint64_t sample,
                                        std::string_view name) const override {
    return dataset_->field_place(sample, name);
  }
  /// Not known: only the images' sizes are summed up.
  std::uint64_t max_image_bytes() const noexcept override { return Place::kUnknownSize; }
  /// Of some samples, fields included.
  double mean_image_bytes() const noexcept override { return mean_bytes_; }
  std::string label_source() const override { return dataset_->label_source(); }

 private:
  const std::shared_ptr<const Dataset> dataset_;
  const std::vector<WantedField> wanted_;
  double mean_bytes_ = 0;
};

/// "json" and "txt?": a field, and one that samples may lack.
std::vector<WantedField> parse_fields(const std::vector<std::string>& names);

}  // namespace feedrace::formats
