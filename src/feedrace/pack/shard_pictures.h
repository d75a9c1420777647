// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/formats/shard_scan.h"
#include "feedrace/pack/bad_list.h"

namespace feedrace::pack {

/// Which member of each sample of a shard is its picture, and how samples are named.
class ShardPictures {
 public:
  ShardPictures(const formats::ShardScan& scan, const std::vector<std::string>& image_fields);

  /// One value a sample; nothing for one without a picture.
  const std::vector<std::optional<std::size_t>>& members() const noexcept { return members_; }
  std::uint64_t count() const noexcept { return count_; }
  /// Place and number, among the shard's samples with a picture, of a sample; the place is that of
  /// its first member where it has no picture. `scan` is the one of the constructor.
  BadSample describe(const formats::ShardScan& scan, const std::string& path,
                     std::size_t sample) const;

 private:
  std::vector<std::optional<std::size_t>> members_;
  std::vector<std::uint64_t> numbers_;
  std::uint64_t count_ = 0;
};

/// "train.tar: sample k.jpg (offset 512, 100 bytes)", as the loader names it; `field` may be empty.
std::string where_of(const BadSample& sample, std::string_view field);

}  // namespace feedrace::pack
