// SPDX-License-Identifier: Apache-2.0
// The samples of existing shards: all of their members, with or without a picture.

#include <sys/stat.h>

#include <optional>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/posix_file.h"
#include "feedrace/formats/webdataset.h"
#include "feedrace/pack/pack_source.h"

namespace feedrace::pack {
namespace {

class ShardSource : public PackSource {
 public:
  /// `stored`: the index that was there, if any, for its crop indexes alone.
  ShardSource(std::unique_ptr<formats::ShardSet> set, std::optional<formats::ShardIndex> stored)
      : set_(std::move(set)), stored_(std::move(stored)), warnings_(set_->warnings()) {
    if (stored_ && stored_->sample_count() != set_->entry_count()) stored_.reset();
    for (const std::string& path : set_->shards()) {
      struct stat status{};
      if (stat(path.c_str(), &status) != 0) raise(formats::system_failure(path, "stat", errno));
      shard_bytes_.push_back(static_cast<std::uint64_t>(status.st_size));
      mtimes_ns_.push_back(formats::mtime_ns(status));
    }
  }

  std::uint64_t size() const noexcept override { return set_->entry_count(); }
  std::string key(std::uint64_t sample) const override {
    return std::string(set_->entry_key(sample));
  }
  std::string listed_key(std::uint64_t sample) const override { return key(sample); }
  std::string listed_shard(std::uint64_t sample) const override {
    return set_->shards()[set_->entry_shard(sample)];
  }
  std::string where(std::uint64_t sample) const override {
    return fmt::format("{}: sample {}", printable(set_->shards()[set_->entry_shard(sample)]),
                       printable(set_->entry_key(sample)));
  }

  Result<void> members(std::uint64_t sample, std::vector<SourceMember>& members) const override {
    const std::uint32_t shard = set_->entry_shard(sample);
    const std::vector<formats::ShardSet::Field> fields = set_->fields(sample);
    members.resize(fields.size());
    for (std::size_t i = 0; i < fields.size(); ++i) {
      members[i] = {SourceMember::From::kShard, std::string(fields[i].name),
                    fields[i].size_bytes,       {},
                    set_->shards()[shard],      fields[i].offset_bytes,
                    shard_bytes_[shard],        mtimes_ns_[shard]};
    }
    return {};
  }

  const formats::Dataset& dataset() const noexcept override { return *set_; }
  const std::vector<std::string>& warnings() const noexcept override { return warnings_; }
  std::span<const std::byte> crop_index(std::uint64_t sample) const noexcept override {
    return stored_ ? stored_->crop_index(sample) : std::span<const std::byte>();
  }
  std::vector<SourceDamage> damage() const override {
    std::vector<SourceDamage> all;
    const std::vector<formats::IndexMeta::Shard>& shards = set_->index().meta().shards;
    for (std::size_t i = 0; i < shards.size(); ++i) {
      for (const formats::Findings::Kind& kind : shards[i].findings.kinds()) {
        if (formats::says_damage(kind.what)) all.push_back(damage_of(set_->shards()[i], kind));
      }
    }
    return all;
  }
  std::vector<std::string> some_files() const override { return set_->shards(); }
  std::uint64_t memory_bytes() const noexcept override { return 0; }

 private:
  static SourceDamage damage_of(const std::string& shard, const formats::Findings::Kind& kind) {
    formats::Findings one;
    one.add_kind(kind);
    const std::string& first = kind.names.empty() ? std::string() : kind.names.front();
    return {ErrorCode::kCorruptData, first.empty() ? formats::base_name(shard) : first,
            one.lines(shard).at(0)};
  }

  const std::unique_ptr<formats::ShardSet> set_;
  std::optional<formats::ShardIndex> stored_;
  std::vector<std::string> warnings_;
  std::vector<std::uint64_t> shard_bytes_;
  std::vector<std::int64_t> mtimes_ns_;
};

}  // namespace

std::unique_ptr<PackSource> open_shard_source(const std::vector<std::string>& sources,
                                              const formats::OpenOptions& options) {
  // Members are copied from where the headers say they are: a stored index that lies would be made
  // true for ever.
  formats::OpenOptions fresh = options;
  fresh.rebuild_index = true;
  fresh.store_index = formats::StoreIndex::kNever;
  auto set = formats::open_shards(sources, fresh);
  if (set->entry_count() == 0) {
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("{}: no samples in {}; give shards that have some", printable(sources.at(0)),
                    formats::counted(set->shards().size(), "shard")));
  }
  return std::make_unique<ShardSource>(std::move(set),
                                       formats::look_at_index(sources, options).index);
}

}  // namespace feedrace::pack
