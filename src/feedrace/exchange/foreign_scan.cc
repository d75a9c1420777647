// SPDX-License-Identifier: Apache-2.0
#include "feedrace/exchange/foreign_scan.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/labels.h"
#include "feedrace/formats/member_name.h"
#include "feedrace/formats/tar_header.h"

namespace feedrace::exchange {
namespace {

using formats::kTarBlockBytes;
using formats::LabelState;
using formats::ShardScan;

constexpr std::size_t kOthersCompared = 64;
/// As `scan_shard` has it: longer ones are no labels.
constexpr std::uint64_t kMaxTextLabelBytes = 4096;
constexpr std::uint64_t kMaxJsonLabelBytes = std::uint64_t{1} << 20;

Failure disagree(const std::string& path, const std::string& what) {
  return {
      ErrorCode::kCorruptData,
      fmt::format("{}: the index that is to be imported says something else than the shard: {}; "
                  "it is of another shard or an older one: make it anew, or let feedrace index "
                  "read the shards",
                  printable(path), what)};
}

std::uint64_t padded(std::uint64_t bytes) noexcept {
  return (bytes + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes;
}

/// A shard whose members are where the index has them, so close that nothing else fits in.
class CloseShard {
 public:
  CloseShard(const formats::FileSource& source, std::string path,
             const std::vector<ForeignMember>& members, const formats::LabelSource& labels)
      : source_(source), path_(std::move(path)), members_(members), labels_(labels) {}

  /// Nothing where headers have to be read to be sure. Failure: the index is wrong.
  Result<std::optional<ShardScan>> scan() {
    if (!lies_close() || !has_end() || !group()) return std::optional<ShardScan>();
    for (std::size_t sample = 0; sample < scan_.sample_count(); ++sample) {
      if (Result<void> labelled = read_label(sample); !labelled) return labelled.error();
    }
    const std::size_t step = std::max<std::size_t>(1, members_.size() / kOthersCompared);
    for (std::size_t i = 0; i < members_.size(); i += step) {
      if (Result<void> same = compare(i); !same) return same.error();
    }
    if (Result<void> same = compare(members_.size() - 1); !same) return same.error();
    return std::optional(std::move(scan_));
  }

 private:
  /// One header of one block in front of each member, and no byte more.
  bool lies_close() const noexcept {
    std::uint64_t end = 0;
    for (const ForeignMember& member : members_) {
      const std::uint64_t size = source_.size_bytes();
      if (member.offset_bytes != end + kTarBlockBytes || member.offset_bytes > size ||
          member.size_bytes > size - member.offset_bytes) {
        return false;
      }
      end = member.offset_bytes + padded(member.size_bytes);
    }
    return !members_.empty();
  }

  /// Zeros to the end of the file, or two blocks of them.
  bool has_end() const {
    const ForeignMember& last = members_.back();
    const std::uint64_t end = last.offset_bytes + padded(last.size_bytes);
    // What lies behind the end mark is a finding, and found by reading the shard.
    constexpr std::uint64_t kMostPadding = 20 * kTarBlockBytes;  // A record of tar's.
    if (source_.size_bytes() < end + 2 * kTarBlockBytes ||
        source_.size_bytes() > end + kMostPadding + 2 * kTarBlockBytes) {
      return false;
    }
    std::string tail(static_cast<std::size_t>(source_.size_bytes() - end), '\1');
    const auto got = source_.read(end, tail);
    return got && *got == tail.size() && tail.find_first_not_of('\0') == std::string::npos;
  }

  /// False for members that belong to no sample, samples in parts, and fields that come twice.
  bool group() {
    std::unordered_map<std::string, std::uint16_t> numbers;
    std::unordered_set<std::string> keys;
    std::string field;
    std::string key;
    for (const ForeignMember& member : members_) {
      const auto own = formats::split_member_name(member.name, field);
      if (!own) return false;
      if (*own != key) {
        close(key);
        key = *own;
        if (key.empty() || !keys.insert(key).second) return false;
      }
      const auto [number, is_new] =
          numbers.try_emplace(field, static_cast<std::uint16_t>(scan_.field_names.size()));
      if (is_new && scan_.field_names.size() > 0xffff) return false;
      if (is_new) scan_.field_names.push_back(field);
      const auto begin =
          scan_.field.begin() + static_cast<std::ptrdiff_t>(scan_.first_member.back());
      if (std::find(begin, scan_.field.end(), number->second) != scan_.field.end()) return false;
      scan_.field.push_back(number->second);
      scan_.offset_bytes.push_back(member.offset_bytes);
      scan_.size_bytes.push_back(member.size_bytes);
    }
    close(key);
    return true;
  }

  void close(const std::string& key) {
    if (scan_.field.size() == scan_.first_member.back()) return;
    scan_.keys += key;
    scan_.key_begin.push_back(scan_.keys.size());
    scan_.first_member.push_back(scan_.field.size());
    scan_.label.push_back(0);
    scan_.label_state.push_back(static_cast<std::uint8_t>(LabelState::kMissing));
  }

  void set_label(std::size_t sample, LabelState state, std::int64_t value) {
    scan_.label[sample] = value;
    scan_.label_state[sample] = static_cast<std::uint8_t>(state);
  }

  /// As `scan_shard` takes labels: of the field that counts most.
  Result<void> read_label(std::size_t sample) {
    if (labels_.by_key != nullptr) {
      const auto found = labels_.by_key->find(std::string(scan_.key(sample)));
      if (found != labels_.by_key->end()) set_label(sample, LabelState::kOk, found->second);
      return {};
    }
    int best = 0;
    for (std::uint64_t m = scan_.first_member[sample]; m < scan_.first_member[sample + 1]; ++m) {
      const int rank = labels_.rank(scan_.field_names[scan_.field[m]]);
      if (rank <= best) continue;
      const Result<bool> taken = read_label(sample, static_cast<std::size_t>(m));
      if (!taken) return taken.error();
      if (*taken) best = rank;
    }
    return {};
  }

  /// False for a JSON document that has no label. Reads header and label in one go.
  Result<bool> read_label(std::size_t sample, std::size_t member) {
    const std::string& field = scan_.field_names[scan_.field[member]];
    const bool is_json = formats::is_json_field(field);
    const std::uint64_t size = members_[member].size_bytes;
    if (size > (is_json ? kMaxJsonLabelBytes : kMaxTextLabelBytes)) {
      set_label(sample, LabelState::kBad, 0);
      const Result<void> same = compare(member);
      return same ? Result<bool>(true) : same.error();
    }
    buffer_.resize(kTarBlockBytes + static_cast<std::size_t>(size));
    if (Result<void> got = read(members_[member].offset_bytes - kTarBlockBytes); !got) {
      return got.error();
    }
    const std::string_view all(buffer_);
    if (Result<void> same = compare(member, all.substr(0, kTarBlockBytes)); !same) {
      return same.error();
    }
    const std::string_view text = all.substr(kTarBlockBytes);
    if (is_json) {
      const auto parsed = formats::parse_json_label(text, labels_.json_key);
      if (parsed && !parsed->found) return false;
      set_label(sample, parsed ? LabelState::kOk : LabelState::kBad, parsed ? parsed->value : 0);
    } else {
      const auto parsed = formats::parse_label(text);
      set_label(sample, parsed ? LabelState::kOk : LabelState::kBad, parsed ? *parsed : 0);
    }
    return true;
  }

  Result<void> read(std::uint64_t offset) {
    const auto got = source_.read(offset, buffer_);
    if (!got) return got.error();
    if (*got == buffer_.size()) return {};
    return Failure{ErrorCode::kIo, fmt::format("{}: became shorter while its index was imported",
                                               printable(path_))};
  }

  Result<void> compare(std::size_t member) {
    buffer_.resize(kTarBlockBytes);
    if (Result<void> got = read(members_[member].offset_bytes - kTarBlockBytes); !got) return got;
    return compare(member, buffer_);
  }

  Result<void> compare(std::size_t member, std::string_view block) const {
    const ForeignMember& wanted = members_[member];
    const auto wrong = [&](const std::string& found) {
      return disagree(path_, fmt::format("at offset {} it has {} of {} bytes, and there is {}",
                                         wanted.offset_bytes, printable(wanted.name),
                                         wanted.size_bytes, found));
    };
    if (!formats::tar_checksum_matches(block)) return wrong("no header in front");
    const formats::TarHeader header = formats::parse_tar_header(block);
    std::string name(header.prefix);
    if (!name.empty()) name += '/';
    name += header.name;
    const auto size = formats::parse_tar_number(header.size_field);
    const bool is_file = header.type == '0' || header.type == '\0' || header.type == '7';
    // Fields are compared as samples have them; Energon's names have their own case.
    std::string own_field;
    std::string field;
    const auto own_key = formats::split_member_name(wanted.name, own_field);
    const auto key = formats::split_member_name(name, field);
    if (!is_file || !size || *size != wanted.size_bytes || key != own_key || field != own_field) {
      return wrong(fmt::format("{} of {} bytes", printable(name), size.value_or(0)));
    }
    return {};
  }

  const formats::FileSource& source_;
  const std::string path_;
  const std::vector<ForeignMember>& members_;
  const formats::LabelSource& labels_;
  ShardScan scan_;
  std::string buffer_;
};

/// Every member of the shard's samples in the index, and the other way round.
class Comparison {
 public:
  Comparison(const std::string& path, const ShardScan& scan,
             const std::vector<ForeignMember>& members)
      : path_(path), scan_(scan), members_(members) {}

  Result<void> run() {
    std::unordered_map<std::uint64_t, std::size_t> by_offset;
    for (std::size_t i = 0; i < members_.size(); ++i)
      by_offset.emplace(members_[i].offset_bytes, i);
    for (std::size_t sample = 0; sample < scan_.sample_count(); ++sample) {
      for (std::uint64_t m = scan_.first_member[sample]; m < scan_.first_member[sample + 1]; ++m) {
        const auto found = by_offset.find(scan_.offset_bytes[m]);
        const std::string there = name_of(sample, static_cast<std::size_t>(m));
        if (found == by_offset.end()) {
          return disagree(path_,
                          fmt::format("it lacks {} at offset {}", there, scan_.offset_bytes[m]));
        }
        if (!is_same(sample, static_cast<std::size_t>(m), members_[found->second])) {
          const ForeignMember& wanted = members_[found->second];
          return disagree(path_, fmt::format("at offset {} it has {} of {} bytes, and there is {} "
                                             "of {} bytes",
                                             wanted.offset_bytes, printable(wanted.name),
                                             wanted.size_bytes, there, scan_.size_bytes[m]));
        }
        by_offset.erase(found);
      }
    }
    return check_rest(by_offset);
  }

 private:
  std::string name_of(std::size_t sample, std::size_t member) const {
    return printable(scan_.key(sample)) + "." + printable(scan_.field_names[scan_.field[member]]);
  }

  bool is_same(std::size_t sample, std::size_t member, const ForeignMember& wanted) const {
    std::string field;
    const auto key = formats::split_member_name(wanted.name, field);
    return key && *key == scan_.key(sample) && field == scan_.field_names[scan_.field[member]] &&
           wanted.size_bytes == scan_.size_bytes[member];
  }

  /// What the index has besides must be what no sample has: members without a key, and those of
  /// samples that are left out as they have a field twice.
  Result<void> check_rest(const std::unordered_map<std::uint64_t, std::size_t>& rest) const {
    const bool has_left_out =
        std::any_of(scan_.findings.kinds().begin(), scan_.findings.kinds().end(),
                    [](const auto& kind) { return formats::says_damage(kind.what); });
    for (const auto& [offset, i] : rest) {
      std::string field;
      if (has_left_out || !formats::split_member_name(members_[i].name, field)) continue;
      return disagree(path_, fmt::format("it has {} at offset {}, and there is no such member",
                                         printable(members_[i].name), offset));
    }
    return {};
  }

  const std::string& path_;
  const ShardScan& scan_;
  const std::vector<ForeignMember>& members_;
};

/// Numbers that the index states, of what was found.
Result<void> compare_counts(const std::string& path, const ForeignShard& foreign,
                            const ShardScan& scan) {
  if (foreign.size_bytes && *foreign.size_bytes != scan.identity.size_bytes) {
    return disagree(path, fmt::format("a file of {} bytes, and it has {}", *foreign.size_bytes,
                                      scan.identity.size_bytes));
  }
  // Of shards with irregular members the tools count in different ways.
  if (foreign.sample_count && scan.findings.empty() &&
      *foreign.sample_count != scan.sample_count()) {
    return disagree(path, fmt::format("{} samples, and there are {}", *foreign.sample_count,
                                      scan.sample_count()));
  }
  return {};
}

}  // namespace

Result<ForeignScan> scan_by_index(const std::string& path, const ForeignShard& foreign,
                                  const formats::LabelSource& labels) {
  ForeignScan result;
  Result<formats::ShardIdentity> identity = formats::identify_shard(path);
  if (!identity) return identity.error();
  if (foreign.members && foreign.mtime_ns >= identity->mtime_ns) {
    const Result<formats::FileSource> source = formats::FileSource::open(path);
    if (!source) return source.error();
    Result<std::optional<ShardScan>> close =
        CloseShard(*source, path, *foreign.members, labels).scan();
    if (!close) return close.error();
    if (*close) {
      result.scan = **std::move(close);
      result.scan.identity = *std::move(identity);
      const Result<void> same = compare_counts(path, foreign, result.scan);
      return same ? Result<ForeignScan>(std::move(result)) : same.error();
    }
  }
  Result<ShardScan> scan = formats::scan_shard_file(path, labels);
  if (!scan) return scan.error();
  if (foreign.members) {
    const Result<void> same = Comparison(path, *scan, *foreign.members).run();
    if (!same) return same.error();
  }
  if (const Result<void> same = compare_counts(path, foreign, *scan); !same) return same.error();
  result.scan = *std::move(scan);
  result.has_read_headers = true;
  return result;
}

}  // namespace feedrace::exchange
