// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/shard_packer.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace feedrace::pack {
namespace {

/// The disk's failures are no sample's.
void check(const Result<void>& written) {
  if (!written) raise(written.error());
}

}  // namespace

ShardPacker::ShardPacker(const PackOptions& options, const PackSource& source,
                         const ShardLayout& layout, const PicturePlan& pictures,
                         const PackFolder& folder, PackCounters& counters,
                         std::unique_ptr<storage::Backend> backend)
    : options_(options),
      source_(source),
      layout_(layout),
      pictures_(pictures),
      folder_(folder),
      counters_(counters),
      reader_(source, std::move(backend)) {
  if (pictures.changes()) changer_.emplace(pictures.change());
}

JournalShard ShardPacker::pack(std::uint64_t shard) {
  shard_ = shard;
  skipped_.clear();
  left_out_.clear();
  std::unique_ptr<JournalShard> packed;
  while (!packed) packed = try_pack(shard);
  return std::move(*packed);
}

std::unique_ptr<JournalShard> ShardPacker::try_pack(std::uint64_t shard) {
  auto created = ShardWriter::create(folder_, options_.part, shard_name(options_.prefix, shard),
                                     options_.align);
  if (!created) raise(created.error());
  ShardWriter& writer = **created;
  const std::uint64_t first = layout_.first_position(shard);
  reader_.start(layout_.first_position(shard + 1) - first,
                [&](std::uint64_t i) { return layout_.sample_at(first + i); });
  std::uint64_t sample_count = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t changed_count = 0;
  while (const ReadSample* sample = reader_.next()) {
    if (counters_.is_stopping) throw Error(ErrorCode::kCancelled, "packing was stopped");
    if (skipped_.contains(sample->sample)) continue;
    if (!sample->state) {
      leave_out(sample->sample, sample->state.error());
      continue;
    }
    if (const Result<void> changed = change_picture(*sample); !changed) {
      leave_out(sample->sample, changed.error());
      continue;
    }
    const std::uint64_t before = writer.size_bytes();
    if (!add_sample(writer, *sample)) {
      counters_.sample_count -= sample_count;
      counters_.size_bytes -= size_bytes;
      return nullptr;
    }
    changed_count += changed_member_ ? 1 : 0;
    ++sample_count;
    ++counters_.sample_count;
    size_bytes += writer.size_bytes() - before;
    counters_.size_bytes += writer.size_bytes() - before;
  }
  auto finished = writer.finish(sample_count);
  if (!finished) raise(finished.error());
  counters_.changed_count += changed_count;
  std::sort(left_out_.begin(), left_out_.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  return std::make_unique<JournalShard>(JournalShard{shard, *std::move(finished), left_out_});
}

Result<void> ShardPacker::change_picture(const ReadSample& sample) {
  changed_member_.reset();
  if (!changer_) return {};
  std::vector<SourceMember> members;
  members.reserve(sample.members.size());
  for (const ReadSample::Member& member : sample.members) members.push_back(member.source);
  const std::optional<std::size_t> at = pictures_.picture(members);
  if (!at) return {};
  const SourceMember& picture = members[*at];
  const auto failure = [&](const Failure& why) -> Failure {
    return {why.code, fmt::format("{}: {}", source_.where(sample.sample), why.message)};
  };
  std::string whole;
  std::string_view bytes = sample.members[*at].bytes;
  if (sample.members[*at].is_streamed) {
    auto read = read_whole_member(picture, PicturePlan::kMaxPictureBytes);
    if (!read) return read.error();
    whole = *std::move(read);
    bytes = whole;
  }
  auto changed = changer_->change(bytes, picture.field);
  if (!changed) return failure(changed.error());
  if (!changed->is_changed) return {};
  changed_ = *std::move(changed);
  members[*at].field = changed_.field;
  if (auto clash = pictures_.clash(members, *at); !clash) return failure(clash.error());
  changed_member_ = at;
  return {};
}

bool ShardPacker::stream_member(ShardWriter& writer, std::uint64_t sample,
                                const SourceMember& member) {
  const Result<void> read =
      reader_.read_streamed(member, [&](std::string_view piece) -> Result<void> {
        if (counters_.is_stopping) throw Error(ErrorCode::kCancelled, "packing was stopped");
        check(writer.append(piece));
        return {};
      });
  if (!read) leave_out(sample, read.error());
  return static_cast<bool>(read);
}

bool ShardPacker::add_sample(ShardWriter& writer, const ReadSample& sample) {
  const std::string key = source_.key(sample.sample);
  for (std::size_t i = 0; i < sample.members.size(); ++i) {
    const ReadSample::Member& member = sample.members[i];
    const bool is_changed = changed_member_ == i;
    const std::string_view field = is_changed ? changed_.field : member.source.field;
    const std::uint64_t size = is_changed ? changed_.bytes.size() : member.source.size_bytes;
    check(writer.begin_member(member_name(key, field), size));
    if (is_changed) {
      check(writer.append(changed_.bytes));
    } else if (!member.is_streamed) {
      check(writer.append(member.bytes));
    } else if (!stream_member(writer, sample.sample, member.source)) {
      return false;
    }
    check(writer.end_member(size));
  }
  return true;
}

void ShardPacker::leave_out(std::uint64_t sample, const Failure& failure) {
  if (options_.on_error == OnSourceError::kStop) {
    throw Error(failure.code,
                failure.message + "; with --on-error skip it is left out, and listed");
  }
  skipped_.insert(sample);
  left_out_.push_back({source_.listed_key(sample),
                       fmt::format("{}: {}", to_string(failure.code), failure.message)});
}

}  // namespace feedrace::pack
