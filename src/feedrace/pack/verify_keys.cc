// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/verify_keys.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/parallel.h"
#include "feedrace/formats/shard_scan.h"
#include "feedrace/pack/checksum.h"
#include "feedrace/pack/file_unit.h"
#include "feedrace/pack/shard_pictures.h"

namespace feedrace::pack {
namespace {

using Record = EqualHashes::Record;

/// Samples whose keys and pictures are compared. More share a key only where something went wrong
/// as a whole, and are counted by the hashes of their keys.
constexpr std::size_t kMaxCompared = 100'000;

/// Samples with equal hashes: groups, one behind the other.
struct Candidates {
  std::vector<Record> records;
  std::vector<std::size_t> group_ends;
  std::uint64_t left_out_count = 0;  ///< Samples beyond those that are compared.

  explicit Candidates(EqualHashes& keys) {
    keys.each_group([this](std::span<const Record> group) {
      if (records.size() + group.size() > kMaxCompared) {
        left_out_count += group.size() - 1;
        return true;
      }
      records.insert(records.end(), group.begin(), group.end());
      group_ends.push_back(records.size());
      return true;
    });
  }
};

/// A part of a shard.
class Slice : public formats::ByteSource {
 public:
  Slice(const formats::ByteSource& whole, std::uint64_t begin, std::uint64_t size)
      : whole_(whole), begin_(begin), size_(size) {}
  std::uint64_t size_bytes() const noexcept override { return size_; }
  Result<std::size_t> read(std::uint64_t offset_bytes, std::span<char> out) const override {
    return whole_.read(begin_ + offset_bytes, out);
  }

 private:
  const formats::ByteSource& whole_;
  const std::uint64_t begin_;
  const std::uint64_t size_;
};

/// One of the candidates, looked up.
struct Twin {
  BadSample sample;
  std::string content;  ///< Checksum of its picture; empty where it can't be had.
};

/// Looks up all candidates of each shard in one go.
std::vector<Twin> look_up(const ShardSources& sources, const VerifyOptions& options,
                          std::size_t thread_count, const std::vector<Record>& records) {
  std::map<std::uint32_t, std::vector<std::size_t>> by_unit;
  for (std::size_t i = 0; i < records.size(); ++i) by_unit[records[i].unit].push_back(i);
  std::vector<std::pair<std::uint32_t, std::vector<std::size_t>>> units(by_unit.begin(),
                                                                        by_unit.end());
  std::vector<Twin> twins(records.size());
  formats::parallel_for(units.size(), thread_count, [&](std::size_t u) {
    const std::string& path = sources.paths[units[u].first];
    const auto scan = formats::scan_shard_file(path, sources.labels);
    const auto source = formats::FileSource::open(path);
    if (!scan || !source) return;  // Changed meanwhile: what is not there is no twin.
    const ShardPictures pictures(*scan, options.format.image_fields);
    for (const std::size_t i : units[u].second) {
      if (records[i].sample >= scan->sample_count()) continue;
      Twin& twin = twins[i];
      twin.sample = pictures.describe(*scan, path, records[i].sample);
      const Slice bytes(*source, twin.sample.offset_bytes, twin.sample.size_bytes.value_or(0));
      const auto content = checksum_of(bytes);
      if (content) twin.content = *content;
    }
  });
  return twins;
}

/// Tells what the candidates are, group by group.
class TwinJudge {
 public:
  explicit TwinJudge(Gathering& gathering) : gathering_(gathering) {}

  void judge(std::span<const Record> records, std::span<Twin> twins) {
    for (std::size_t i = 1; i < twins.size(); ++i) {
      if (twins[i].sample.key.empty()) continue;
      const Twin* namesake = nullptr;
      const Twin* same = nullptr;
      for (std::size_t j = 0; j < i && same == nullptr; ++j) {
        if (twins[j].sample.key != twins[i].sample.key) continue;
        if (namesake == nullptr) namesake = &twins[j];
        if (!twins[i].content.empty() && twins[j].content == twins[i].content) same = &twins[j];
      }
      if (same != nullptr) {
        there_twice(*same, twins[i], records[i].unit);
      } else if (namesake != nullptr) {
        share_key(*namesake, twins[i]);
      }
    }
  }

 private:
  void there_twice(const Twin& first, Twin& twin, std::size_t unit) {
    BadSample& sample = twin.sample;
    if (sample.sample) *sample.sample += gathering_.first_number(unit);
    sample.code = to_string(ErrorCode::kCorruptData);
    sample.reason =
        fmt::format("{}: the same key and picture as in {} at offset {}", where_of(sample, ""),
                    printable(formats::base_name(first.sample.shard)), first.sample.offset_bytes);
    gathering_.add({"key", true, "samples that are there twice", 1, {sample.reason}});
    gathering_.add_bad(sample);
  }

  void share_key(const Twin& first, const Twin& twin) {
    gathering_.add({"key",
                    false,
                    "samples that share their key with another, in shards that are read for "
                    "themselves",
                    1,
                    {fmt::format("{}: another picture than in {}", where_of(twin.sample, ""),
                                 printable(formats::base_name(first.sample.shard)))}});
  }

  Gathering& gathering_;
};

void note_left_out(const Candidates& candidates, Gathering& gathering) {
  if (candidates.left_out_count == 0) return;
  gathering.add({"key",
                 true,
                 "more samples with keys that are there already, not compared",
                 candidates.left_out_count,
                 {}});
}

}  // namespace

void list_unlabelled(const ShardSources& sources, const VerifyOptions& options,
                     Gathering& gathering) {
  for (const std::size_t unit : gathering.unlabelled_units()) {
    const std::string& path = sources.paths[unit];
    const auto scan = formats::scan_shard_file(path, sources.labels);
    if (!scan) continue;  // Changed meanwhile, which the next run tells.
    const ShardPictures pictures(*scan, options.format.image_fields);
    for (std::size_t i = 0; i < scan->sample_count(); ++i) {
      const auto state = static_cast<formats::LabelState>(scan->label_state[i]);
      if (!pictures.members()[i] || state != formats::LabelState::kMissing) continue;
      BadSample bad = pictures.describe(*scan, path, i);
      if (bad.sample) *bad.sample += gathering.first_number(unit);
      bad.code = to_string(ErrorCode::kCorruptData);
      bad.reason = where_of(bad, "") + ": no label, though other samples have one";
      gathering.add({"label", true, kMissingLabels, 1, {bad.reason}});
      gathering.add_bad(bad);
    }
  }
}

void find_twins(const ShardSources& sources, const VerifyOptions& options, std::size_t thread_count,
                Gathering& gathering) {
  const Candidates candidates(gathering.keys());
  std::vector<Twin> twins = look_up(sources, options, thread_count, candidates.records);
  TwinJudge judge(gathering);
  std::size_t begin = 0;
  for (const std::size_t end : candidates.group_ends) {
    judge.judge(std::span(candidates.records).subspan(begin, end - begin),
                std::span(twins).subspan(begin, end - begin));
    begin = end;
  }
  note_left_out(candidates, gathering);
}

void find_twins(const formats::Dataset& set, Gathering& gathering) {
  const Candidates candidates(gathering.keys());
  const auto key = [&](std::size_t i) {
    const Record& record = candidates.records[i];
    return set.key(record.unit * kFilesAUnit + record.sample);
  };
  std::size_t begin = 0;
  for (const std::size_t end : candidates.group_ends) {
    for (std::size_t i = begin + 1; i < end; ++i) {
      const std::string own = key(i);
      for (std::size_t j = begin; j < i; ++j) {
        const std::string other = key(j);
        if (formats::canonical_key(own) != formats::canonical_key(other)) continue;
        gathering.add({"key",
                       false,
                       "files that would have the key of another in shards",
                       1,
                       {fmt::format("{} and {}: key {}", printable(other), printable(own),
                                    printable(formats::canonical_key(own)))}});
        break;
      }
    }
    begin = end;
  }
  note_left_out(candidates, gathering);
}

}  // namespace feedrace::pack
