// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/shard_scan.h"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <limits>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/member_name.h"

namespace feedrace::formats {
namespace {

constexpr std::string_view kLinks = "link members left out, as a link has no data of its own";
constexpr std::string_view kSpecials = "device and pipe members left out";
constexpr std::string_view kOthers = "members of unknown type left out";
constexpr std::string_view kUnnamed =
    "members that belong to no sample left out (hidden, no dot in the name, or __metadata__)";
constexpr std::string_view kNoEndMark =
    "end mark missing; the shard may be cut between two members";
constexpr std::string_view kTrailing =
    "data behind the end mark, which is not read (archives put one behind the other?)";
constexpr std::string_view kEmpty = "no samples in the shard";
constexpr std::string_view kTwice =
    "samples left out, as they have a field twice (duplicate members)";
constexpr std::string_view kApart =
    "samples whose members are not adjacent, put together; sort the names when packing";

/// A label that is longer is none: it would be read for every sample.
constexpr std::uint64_t kMaxTextLabelBytes = 4096;
constexpr std::uint64_t kMaxJsonLabelBytes = std::uint64_t{1} << 20;
constexpr std::size_t kIdentityBytes = std::size_t{64} << 10;

/// A sample while its members come in.
struct Label {
  int rank = 0;
  LabelState state = LabelState::kMissing;
  std::int64_t value = 0;
};

class Scan {
 public:
  Scan(const ByteSource& source, const std::string& name, const LabelSource& labels,
       const MemberVisitor& visit)
      : reader_(source, name), name_(name), labels_(labels), visit_(visit) {}

  Result<ShardScan> run() {
    TarMember member;
    while (true) {
      const Result<bool> found = reader_.next(member);
      if (!found) return found.error();
      if (!*found) break;
      if (visit_) {
        if (const Result<void> seen = visit_(member); !seen) return seen.error();
      }
      if (const Result<void> taken = take(member); !taken) return taken.error();
    }
    close_sample();
    finish_findings();
    return std::move(scan_);
  }

 private:
  Result<void> take(const TarMember& member) {
    if (member.kind == TarMember::Kind::kFolder) return {};
    if (member.kind != TarMember::Kind::kFile) {
      const bool link = member.kind == TarMember::Kind::kLink;
      const bool special = member.kind == TarMember::Kind::kSpecial;
      scan_.findings.add(link ? kLinks : (special ? kSpecials : kOthers), member.name);
      return {};
    }
    const auto key = split_member_name(member.name, field_name_);
    if (!key) {
      scan_.findings.add(kUnnamed, member.name);
      return {};
    }
    if (!open_ || *key != std::string_view(scan_.keys).substr(scan_.key_begin.back())) {
      close_sample();
      scan_.keys += *key;
      open_ = true;
    }
    const Result<std::uint16_t> field = field_number();
    if (!field) return field.error();
    scan_.field.push_back(*field);
    scan_.offset_bytes.push_back(member.data_offset_bytes);
    scan_.size_bytes.push_back(member.size_bytes);
    return read_label(member);
  }

  Result<std::uint16_t> field_number() {
    // Members come in the same order in every sample: the one expected next is nearly always right.
    if (next_field_ < scan_.field_names.size() && scan_.field_names[next_field_] == field_name_) {
      return static_cast<std::uint16_t>(next_field_++);
    }
    const auto [at, is_new] = field_numbers_.try_emplace(
        field_name_, static_cast<std::uint16_t>(scan_.field_names.size()));
    if (is_new) {
      if (scan_.field_names.size() > std::numeric_limits<std::uint16_t>::max()) {
        return Failure{
            ErrorCode::kInvalidArgument,
            fmt::format("{}: more than 65,535 different fields, the last '{}': a key ends "
                        "at the first dot of the name; pack with no dots in keys",
                        printable(name_), printable(field_name_))};
      }
      scan_.field_names.push_back(field_name_);
    }
    next_field_ = std::size_t{at->second} + 1;
    return at->second;
  }

  Result<void> read_label(const TarMember& member) {
    const int rank = labels_.rank(field_name_);
    if (rank <= label_.rank) return {};
    const bool json = is_json_field(field_name_);
    if (member.size_bytes > (json ? kMaxJsonLabelBytes : kMaxTextLabelBytes)) {
      label_ = {rank, LabelState::kBad, 0};
      return {};
    }
    const Result<std::string_view> text = reader_.content(member);
    if (!text) return text.error();
    if (json) {
      const Result<JsonLabel> parsed = parse_json_label(*text, labels_.json_key);
      if (!parsed) label_ = {rank, LabelState::kBad, 0};
      if (parsed && parsed->found) label_ = {rank, LabelState::kOk, parsed->value};
      return {};
    }
    const Result<std::int64_t> parsed = parse_label(*text);
    label_ = parsed ? Label{rank, LabelState::kOk, *parsed} : Label{rank, LabelState::kBad, 0};
    return {};
  }

  void close_sample() {
    next_field_ = 0;
    if (!std::exchange(open_, false)) return;
    if (labels_.by_key != nullptr) {
      const auto found = labels_.by_key->find(scan_.keys.substr(scan_.key_begin.back()));
      if (found != labels_.by_key->end()) label_ = {1, LabelState::kOk, found->second};
    }
    scan_.first_member.push_back(scan_.member_count());
    scan_.key_begin.push_back(scan_.keys.size());
    scan_.label.push_back(label_.value);
    scan_.label_state.push_back(static_cast<std::uint8_t>(label_.state));
    label_ = {};
  }

  void finish_findings() {
    if (reader_.end_mark_missing()) scan_.findings.add(kNoEndMark, "");
    if (reader_.trailing_data_offset() != 0) {
      scan_.findings.add(kTrailing, fmt::format("offset {}", reader_.trailing_data_offset()));
    }
  }

  TarReader reader_;
  const std::string& name_;
  const LabelSource& labels_;
  const MemberVisitor& visit_;
  ShardScan scan_;
  bool open_ = false;
  Label label_;
  std::string field_name_;
  std::unordered_map<std::string, std::uint16_t> field_numbers_;
  std::size_t next_field_ = 0;
};

/// For each sample the first one with its key; itself where the key is new.
std::vector<std::size_t> first_with_key(const ShardScan& scan) {
  std::vector<std::pair<std::uint64_t, std::size_t>> by_hash;
  by_hash.reserve(scan.sample_count());
  for (std::size_t i = 0; i < scan.sample_count(); ++i)
    by_hash.emplace_back(hash_of(scan.key(i)), i);
  std::sort(by_hash.begin(), by_hash.end());
  std::vector<std::size_t> first(scan.sample_count());
  for (std::size_t run = 0, i = 0; i < by_hash.size(); ++i) {
    if (by_hash[i].first != by_hash[run].first) run = i;
    const std::size_t sample = by_hash[i].second;
    first[sample] = sample;
    // Nearly always there is one in the run; with equal hashes, keys decide.
    for (std::size_t j = run; j < i; ++j) {
      if (scan.key(by_hash[j].second) == scan.key(sample)) {
        first[sample] = by_hash[j].second;
        break;
      }
    }
  }
  return first;
}

bool has_field_twice(std::vector<std::uint16_t> fields) {
  std::sort(fields.begin(), fields.end());
  return std::adjacent_find(fields.begin(), fields.end()) != fields.end();
}

/// Puts parts with one key together at the first one's place, leaves out samples with a field
/// twice.
class Regrouping {
 public:
  Regrouping(ShardScan scan, const std::vector<std::size_t>& first) : in_(std::move(scan)) {
    parts_.resize(in_.sample_count());
    for (std::size_t i = 0; i < in_.sample_count(); ++i) parts_[first[i]].push_back(i);
  }

  ShardScan run() {
    out_.field_names = std::move(in_.field_names);
    out_.findings = std::move(in_.findings);
    for (std::size_t i = 0; i < parts_.size(); ++i) {
      if (!parts_[i].empty()) add(i);
    }
    return std::move(out_);
  }

 private:
  void add(std::size_t sample) {
    const std::string_view key = in_.key(sample);
    std::vector<std::uint16_t> fields;
    for (const std::size_t part : parts_[sample]) {
      for (std::uint64_t m = in_.first_member[part]; m < in_.first_member[part + 1]; ++m) {
        fields.push_back(in_.field[m]);
      }
    }
    if (has_field_twice(std::move(fields))) return out_.findings.add(kTwice, key);
    if (parts_[sample].size() > 1) out_.findings.add(kApart, key);
    std::size_t label_part = sample;
    for (const std::size_t part : parts_[sample]) {
      for (std::uint64_t m = in_.first_member[part]; m < in_.first_member[part + 1]; ++m) {
        out_.field.push_back(in_.field[m]);
        out_.offset_bytes.push_back(in_.offset_bytes[m]);
        out_.size_bytes.push_back(in_.size_bytes[m]);
      }
      const bool labelled =
          in_.label_state[part] != static_cast<std::uint8_t>(LabelState::kMissing);
      if (labelled) label_part = part;
    }
    out_.keys += key;
    out_.key_begin.push_back(out_.keys.size());
    out_.first_member.push_back(out_.field.size());
    out_.label.push_back(in_.label[label_part]);
    out_.label_state.push_back(in_.label_state[label_part]);
  }

  ShardScan in_;
  ShardScan out_;
  std::vector<std::vector<std::size_t>> parts_;
};

bool any_sample_has_field_twice(const ShardScan& scan) {
  for (std::size_t i = 0; i < scan.sample_count(); ++i) {
    const auto begin = scan.field.begin() + static_cast<std::ptrdiff_t>(scan.first_member[i]);
    const auto end = scan.field.begin() + static_cast<std::ptrdiff_t>(scan.first_member[i + 1]);
    // Rising numbers are distinct, and are what samples packed in one order have.
    if (std::adjacent_find(begin, end, std::greater_equal<>()) == end) continue;
    if (has_field_twice({begin, end})) return true;
  }
  return false;
}

ShardScan regroup(ShardScan scan) {
  const std::vector<std::size_t> first = first_with_key(scan);
  bool regular = !any_sample_has_field_twice(scan);
  for (std::size_t i = 0; i < first.size() && regular; ++i) regular = first[i] == i;
  if (regular) return scan;
  return Regrouping(std::move(scan), first).run();
}

Result<ShardIdentity> identify(const FileSource& source) {
  const std::uint64_t size = source.size_bytes();
  const auto head = static_cast<std::size_t>(std::min<std::uint64_t>(size, kIdentityBytes));
  const auto tail = static_cast<std::size_t>(std::min<std::uint64_t>(size - head, kIdentityBytes));
  std::string bytes(head + tail, '\0');
  const std::span<char> all(bytes);
  const Result<std::size_t> first = source.read(0, all.first(head));
  if (!first) return first.error();
  const Result<std::size_t> last = source.read(size - tail, all.subspan(head));
  if (!last) return last.error();
  return ShardIdentity{size, mtime_ns(source.status()), hash_text(bytes)};
}

}  // namespace

int LabelSource::rank(std::string_view field_name) const noexcept {
  if (by_key != nullptr || field.empty()) return 0;
  if (field != "auto") return field_name == field ? 1 : 0;
  if (field_name == "cls") return 2;
  return field_name == "json" ? 1 : 0;
}

bool is_json_field(std::string_view field) noexcept {
  return field == "json" || field.ends_with(".json");
}

bool says_damage(std::string_view finding) noexcept {
  return finding == kTwice || finding == kNoEndMark || finding == kTrailing;
}

Result<ShardScan> scan_shard(const ByteSource& source, const std::string& name,
                             const LabelSource& labels, const MemberVisitor& visit) {
  Result<ShardScan> scan = Scan(source, name, labels, visit).run();
  if (!scan) return scan;
  ShardScan grouped = regroup(*std::move(scan));
  if (grouped.sample_count() == 0) grouped.findings.add(kEmpty, "");
  return grouped;
}

Result<ShardScan> scan_shard_file(const std::string& path, const LabelSource& labels,
                                  const MemberVisitor& visit) {
  const Result<FileSource> source = FileSource::open(path);
  if (!source) return source.error();
  Result<ShardScan> scan = scan_shard(*source, path, labels, visit);
  if (!scan) return scan;
  Result<ShardIdentity> identity = identify(*source);
  if (!identity) return identity.error();
  struct stat after{};
  if (fstat(source->fd(), &after) != 0) return system_failure(path, "stat", errno);
  if (static_cast<std::uint64_t>(after.st_size) != identity->size_bytes ||
      mtime_ns(after) != identity->mtime_ns) {
    return Failure{ErrorCode::kIo,
                   fmt::format("{}: changed while it was indexed; open the set when the shard is "
                               "written",
                               printable(path))};
  }
  scan->identity = *std::move(identity);
  return scan;
}

Result<ShardIdentity> identify_shard(const std::string& path) {
  const Result<FileSource> source = FileSource::open(path);
  if (!source) return source.error();
  return identify(*source);
}

}  // namespace feedrace::formats
