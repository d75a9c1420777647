// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "feedrace/format.h"

namespace feedrace::formats::testing {

/// A data set that says what a test wants it to, with nothing on the disk.
class ListedDataset : public Dataset {
 public:
  struct Sample {
    std::string key;
    std::int64_t label_value = 0;
    bool has_label = true;  ///< False: `label()` fails.
  };

  std::vector<Sample> samples;
  std::vector<std::string> shard_paths;  ///< With one: all samples lie in it.
  std::vector<std::string> class_names;
  std::vector<std::string> notices;
  std::vector<Part> part_list;
  std::string kind_text = "image folder";
  std::string fingerprint_text = "f";
  std::string key_fingerprint_text = "k";
  std::string key_set_text = "s";
  std::string label_source_text = "list";
  std::uint64_t max_bytes = Place::kUnknownSize;
  double mean_bytes = 0;

  std::string_view kind() const noexcept override { return kind_text; }
  std::uint64_t size() const noexcept override { return samples.size(); }
  Place place(std::uint64_t sample) const noexcept override {
    return shard_paths.empty() ? Place{} : Place{0, 512 * sample, 10 + sample};
  }
  std::string path(std::uint64_t sample) const override { return "/data/" + key(sample); }
  std::string key(std::uint64_t sample) const override { return samples.at(sample).key; }
  Result<std::int64_t> label(std::uint64_t sample) const override {
    if (samples.at(sample).has_label) return samples[sample].label_value;
    return Failure{ErrorCode::kCorruptData, where(sample) + ": no label"};
  }
  std::string where(std::uint64_t sample) const override { return "at " + key(sample); }
  const std::vector<std::string>& shards() const noexcept override { return shard_paths; }
  const std::vector<std::string>& classes() const noexcept override { return class_names; }
  const std::vector<std::string>& warnings() const noexcept override { return notices; }
  std::string fingerprint() const override { return fingerprint_text; }
  std::string key_fingerprint() const override { return key_fingerprint_text; }
  std::string key_set_fingerprint() const override { return key_set_text; }
  std::vector<Part> parts() const override { return part_list; }
  std::uint64_t max_image_bytes() const noexcept override { return max_bytes; }
  double mean_image_bytes() const noexcept override { return mean_bytes; }
  std::string label_source() const override { return label_source_text; }
};

inline std::shared_ptr<ListedDataset> listed_dataset(std::vector<ListedDataset::Sample> samples) {
  auto set = std::make_shared<ListedDataset>();
  set->samples = std::move(samples);
  return set;
}

}  // namespace feedrace::formats::testing
