// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/format.h"
#include "feedrace/formats/decoded_pictures.h"
#include "feedrace/formats/shard_scan.h"

namespace feedrace::formats {

/// Finds the images in a shard: of a sample's members the one whose field is named first. By
/// default, arrays are pictures only in a shard that has no others: beside pictures they are masks,
/// depths or features, also in a sample that lacks its picture.
class ImageFinder {
 public:
  /// `scan` must stay.
  ImageFinder(const ShardScan& scan, const std::vector<std::string>& image_fields)
      : scan_(scan), none_(image_fields.size()) {
    const bool is_default = image_fields == OpenOptions().image_fields;
    const bool has_encoded =
        std::any_of(scan.field_names.begin(), scan.field_names.end(), [&](const auto& field) {
          return !is_decoded_field(field) &&
                 std::find(image_fields.begin(), image_fields.end(), field) != image_fields.end();
        });
    for (const std::string& field : scan.field_names) {
      if (is_default && has_encoded && is_decoded_field(field)) {
        rank_.push_back(none_);
        continue;
      }
      const auto found = std::find(image_fields.begin(), image_fields.end(), field);
      rank_.push_back(static_cast<std::size_t>(found - image_fields.begin()));
    }
  }

  /// Number of the member that is the sample's image, if it has one.
  std::optional<std::size_t> member(std::size_t sample) const {
    std::size_t best = none_;
    std::optional<std::size_t> image;
    for (std::uint64_t m = scan_.first_member[sample]; m < scan_.first_member[sample + 1]; ++m) {
      if (rank_[scan_.field[m]] >= best) continue;
      best = rank_[scan_.field[m]];
      image = static_cast<std::size_t>(m);
    }
    return image;
  }

 private:
  const ShardScan& scan_;
  const std::size_t none_;
  std::vector<std::size_t> rank_;  // Of the shard's fields among the image fields.
};

}  // namespace feedrace::formats
