// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/shard_layout.h"

#include <algorithm>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/pack/tar_writer.h"

namespace feedrace::pack {
namespace {

/// Keeps the order of packing apart from those of training with the same seed.
constexpr std::uint32_t kPackStream = 0x7061636b;

/// Adds samples up to shards.
class Cutter {
 public:
  Cutter(const PackOptions& options, std::uint64_t sample_count)
      : options_(options), sample_count_(sample_count) {}

  /// True when the sample begins a new shard.
  bool take(std::uint64_t position, std::string_view key,
            const std::vector<SourceMember>& members) {
    std::uint64_t end = sample_end(bytes_, key, members, options_.align);
    const bool begins = position > 0 && is_full(position, end);
    if (begins) end = sample_end(0, key, members, options_.align);
    bytes_ = end;
    return begins;
  }
  /// Of the shard so far, with its end.
  std::uint64_t shard_bytes() const { return bytes_ + tar_end_bytes(bytes_, options_.align); }

 private:
  bool is_full(std::uint64_t position, std::uint64_t end) const {
    if (!options_.shard_count) {
      return end + tar_end_bytes(end, options_.align) > options_.shard_size_bytes;
    }
    const auto shard_of = [&](std::uint64_t at) {
      __extension__ using Wide = unsigned __int128;  // Products of counts may be larger.
      return static_cast<std::uint64_t>(((Wide{at} + 1) * *options_.shard_count - 1) /
                                        sample_count_);
    };
    return shard_of(position) != shard_of(position - 1);
  }

  const PackOptions& options_;
  const std::uint64_t sample_count_;
  std::uint64_t bytes_ = 0;
};

}  // namespace

std::string member_name(std::string_view key, std::string_view field) {
  return fmt::format("{}.{}", key, field);
}

std::uint64_t sample_end(std::uint64_t offset_bytes, std::string_view key,
                         const std::vector<SourceMember>& members, bool is_aligned) {
  for (const SourceMember& member : members) {
    const std::string name = member_name(key, member.field);
    offset_bytes += tar_head_bytes(offset_bytes, name, member.size_bytes, is_aligned) +
                    member.size_bytes + tar_padding_bytes(member.size_bytes);
  }
  return offset_bytes;
}

void ShardLayout::check_keys(const PackSource& source) const {
  // Hashes first: keys themselves would be the largest thing in memory.
  std::vector<std::pair<std::uint64_t, std::uint64_t>> hashes;
  hashes.reserve(sample_count_);
  for (std::uint64_t i = 0; i < sample_count_; ++i) {
    const std::uint64_t sample = kept_ ? (*kept_)[i] : i;
    hashes.emplace_back(formats::hash_of(formats::canonical_key(source.key(sample))), sample);
  }
  std::sort(hashes.begin(), hashes.end());
  for (std::size_t i = 1; i < hashes.size(); ++i) {
    if (hashes[i].first != hashes[i - 1].first) continue;
    const std::uint64_t first = hashes[i - 1].second;
    const std::uint64_t second = hashes[i].second;
    const std::string key = source.key(second);
    if (formats::canonical_key(source.key(first)) != formats::canonical_key(key)) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} and {}: both would have the key {} in the shards, where a key ends "
                            "at the first dot; rename one of them, or list it in --exclude",
                            source.where(first), source.where(second), printable(key)));
  }
}

ShardLayout::ShardLayout(const PackSource& source, const PackOptions& options,
                         const ExcludeList& exclude) {
  choose_samples(source, options, exclude);
  if (sample_count_ == 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{}: nothing to pack: all {} are left out", printable(options.sources.at(0)),
                    formats::counted(source.size(), "sample")));
  }
  if (options.shard_count && *options.shard_count > sample_count_) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} for {}: give as many shards as there are samples, or fewer",
                            formats::counted(*options.shard_count, "shard"),
                            formats::counted(sample_count_, "sample")));
  }
  check_keys(source);
  if (options.shuffle) permutation_.emplace(sample_count_, options.seed, 0, kPackStream);
}

std::uint64_t ShardLayout::sample_at(std::uint64_t position) const noexcept {
  const std::uint64_t place = permutation_ ? (*permutation_)(position) : position;
  return kept_ ? (*kept_)[place] : place;
}

void ShardLayout::choose_samples(const PackSource& source, const PackOptions& options,
                                 const ExcludeList& exclude) {
  std::vector<SourceMember> members;
  std::unordered_set<const std::string*> met;  // Of the list; two samples may have one key.
  const auto leave_out = [&](std::uint64_t sample, std::string reason) {
    if (!kept_) {
      kept_.emplace();
      for (std::uint64_t i = 0; i < sample; ++i) kept_->push_back(i);
    }
    left_out_.push_back({source.listed_key(sample), std::move(reason)});
  };
  for (std::uint64_t i = 0; i < source.size(); ++i) {
    if (exclude.size() != 0) {
      const std::string* reason = exclude.reason(source.listed_shard(i), source.listed_key(i));
      if (reason != nullptr) {
        met.insert(reason);
        leave_out(i, "excluded: " + *reason);
        continue;
      }
    }
    if (const Result<void> readable = source.members(i, members); !readable) {
      if (options.on_error == OnSourceError::kStop) raise(readable.error());
      ++unreadable_count_;
      leave_out(i,
                fmt::format("{}: {}", to_string(readable.error().code), readable.error().message));
      continue;
    }
    if (kept_) kept_->push_back(i);
  }
  sample_count_ = kept_ ? kept_->size() : source.size();
  unmatched_excludes_ = exclude.size() - met.size();
}

void ShardLayout::cut(const PackSource& source, const PackOptions& options,
                      const PicturePlan& pictures) {
  Cutter cutter(options, sample_count_);
  formats::Fingerprint sizes;
  formats::Fingerprint times;
  std::vector<SourceMember> members;
  for (std::uint64_t position = 0; position < sample_count_; ++position) {
    const std::uint64_t sample = sample_at(position);
    if (const Result<void> found = source.members(sample, members); !found) raise(found.error());
    for (const SourceMember& member : members) {
      sizes.add_number(member.size_bytes);
      source_bytes_ += member.size_bytes;
      times.add_number(static_cast<std::uint64_t>(member.mtime_ns));
    }
    pictures.apply(members);
    const std::uint64_t shard_bytes = position == 0 ? 0 : cutter.shard_bytes();
    if (cutter.take(position, source.key(sample), members)) {
      first_position_.push_back(position);
      shard_bytes_.push_back(shard_bytes);
    }
    for (const SourceMember& member : members) payload_bytes_ += member.size_bytes;
  }
  first_position_.push_back(sample_count_);
  shard_bytes_.push_back(cutter.shard_bytes());
  sizes_ = sizes.text();
  times_ = times.text();
}

std::uint64_t ShardLayout::memory_bytes() const noexcept {
  std::uint64_t numbers = first_position_.size() + shard_bytes_.size();
  if (kept_) numbers += kept_->size();
  return sizeof(std::uint64_t) * numbers;
}

}  // namespace feedrace::pack
