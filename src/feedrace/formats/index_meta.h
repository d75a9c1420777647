// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/formats/findings.h"
#include "feedrace/formats/shard_scan.h"

namespace feedrace::formats {

/// Of the index's layout. A reader that meets another one makes the index anew.
inline constexpr std::uint64_t kIndexVersion = 2;

/// meta.json: everything about an index that does not grow with its samples.
struct IndexMeta {
  struct Shard {
    std::string name;  ///< Base name.
    ShardIdentity identity;
    std::uint64_t sample_count = 0;
    std::uint64_t member_count = 0;
    std::uint64_t image_count = 0;  ///< Samples that have an image.
    /// `Part::digest`: over file size and hash, and the key, image size and label of each sample
    /// that has an image; not over the time of change, which a copy does not keep.
    std::string digest;
    Findings findings;
    /// Samples whose image has a crop index; nothing where they were not made.
    std::optional<std::uint64_t> crop_index_count;
    CropIndexGaps crop_index_gaps;  ///< Why the other images have none.
  };

  std::string options;  ///< What labels and images were looked for; another value: another index.
  std::vector<Shard> shards;
  std::vector<std::string> fields;
  std::uint64_t sample_count = 0;  ///< All samples.
  std::uint64_t member_count = 0;
  std::uint64_t image_count =
      0;  ///< Samples that have an image; if fewer, `image_samples.npy` lists them.
  std::uint64_t labelled_count = 0;
  std::uint64_t bad_label_count = 0;
  std::uint64_t unlabelled_count = 0;  ///< Of samples with an image.
  std::uint64_t max_image_bytes = 0;
  double mean_image_bytes = 0;
  std::string fingerprint;
  std::string key_fingerprint;      ///< `Dataset::key_fingerprint()`.
  std::string key_set_fingerprint;  ///< `Dataset::key_set_fingerprint()`.

  /// Of one shard at least crop indexes were made: the columns are there.
  bool has_crop_indexes() const noexcept;
  std::uint64_t crop_index_count() const noexcept;
  CropIndexGaps crop_index_gaps() const;

  std::string to_json() const;
  /// Failure: kCorruptData: not JSON, a member missing or of the wrong type, sums that disagree, or
  /// another version.
  static Result<IndexMeta> from_json(std::string_view text);
};

}  // namespace feedrace::formats
