// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/order/permutation.h"
#include "feedrace/pack.h"
#include "feedrace/pack/exclude_list.h"
#include "feedrace/pack/pack_source.h"
#include "feedrace/pack/picture_plan.h"

namespace feedrace::pack {

/// Which samples are packed, in which order, and which shard each is in: a function of the sources
/// and options, so that every thread, part and restart comes to the same.
class ShardLayout {
 public:
  /// Chooses and orders the samples; shards come with `cut`. Throws Error: kInvalidArgument (more
  /// shards than samples, nothing to pack, a key twice); what a sample that can't be read has to
  /// say, unless it is to be skipped.
  ShardLayout(const PackSource& source, const PackOptions& options, const ExcludeList& exclude);
  /// Once, before anything of shards or sizes is asked for.
  void cut(const PackSource& source, const PackOptions& options, const PicturePlan& pictures);

  std::uint64_t sample_count() const noexcept { return sample_count_; }
  std::uint64_t shard_count() const noexcept { return first_position_.size() - 1; }
  /// Positions of a shard: [first_position(i), first_position(i + 1)).
  std::uint64_t first_position(std::uint64_t shard) const noexcept {
    return first_position_[shard];
  }
  /// The sample at a position of the set to be.
  std::uint64_t sample_at(std::uint64_t position) const noexcept;
  /// What the shard will take, if no sample fails; about, where pictures are changed.
  std::uint64_t shard_bytes(std::uint64_t shard) const noexcept { return shard_bytes_[shard]; }
  std::uint64_t payload_bytes() const noexcept { return payload_bytes_; }
  /// Of the same members before pictures are changed.
  std::uint64_t source_bytes() const noexcept { return source_bytes_; }

  const std::vector<LeftOutSample>& left_out() const noexcept { return left_out_; }
  std::uint64_t unreadable_count() const noexcept { return unreadable_count_; }
  std::uint64_t unmatched_excludes() const noexcept { return unmatched_excludes_; }

  /// 16 hex digits over the sizes of all members, and over the times of their files too.
  const std::string& sizes() const noexcept { return sizes_; }
  const std::string& times() const noexcept { return times_; }
  std::uint64_t memory_bytes() const noexcept;

 private:
  void choose_samples(const PackSource& source, const PackOptions& options,
                      const ExcludeList& exclude);
  void check_keys(const PackSource& source) const;

  std::optional<std::vector<std::uint64_t>> kept_;  // Nothing: all samples.
  std::uint64_t sample_count_ = 0;
  std::optional<order::Permutation> permutation_;  // Nothing: in order.
  std::vector<std::uint64_t> first_position_{0};
  std::vector<std::uint64_t> shard_bytes_;
  std::uint64_t payload_bytes_ = 0;
  std::uint64_t source_bytes_ = 0;
  std::vector<LeftOutSample> left_out_;
  std::uint64_t unreadable_count_ = 0;
  std::uint64_t unmatched_excludes_ = 0;
  std::string sizes_;
  std::string times_;
};

/// The name of a member in the tar.
std::string member_name(std::string_view key, std::string_view field);

/// Where a sample that begins at `offset_bytes` of its shard ends.
std::uint64_t sample_end(std::uint64_t offset_bytes, std::string_view key,
                         const std::vector<SourceMember>& members, bool is_aligned);

}  // namespace feedrace::pack
