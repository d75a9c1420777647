// SPDX-License-Identifier: Apache-2.0
#include "feedrace/exchange/foreign_scan.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/member_name.h"

namespace feedrace::exchange {
namespace {

using formats::ShardScan;
using formats::TarMember;

Failure disagree(const std::string& path, const std::string& what) {
  return {
      ErrorCode::kCorruptData,
      fmt::format("{}: the index that is to be imported says something else than the shard: {}; "
                  "it is of another shard or an older one: make it anew, or let feedrace index "
                  "read the shards",
                  printable(path), what)};
}

/// Places rise, as in every tar, and no two members have a byte in common.
Result<void> check_places(const std::string& path, const std::vector<ForeignMember>& members) {
  for (std::size_t i = 1; i < members.size(); ++i) {
    const ForeignMember& last = members[i - 1];
    const ForeignMember& member = members[i];
    const auto wrong = [&](const char* what) {
      return disagree(
          path, fmt::format("it has {} at offset {} {} {} at offset {}", printable(member.name),
                            member.offset_bytes, what, printable(last.name), last.offset_bytes));
    };
    if (member.offset_bytes <= last.offset_bytes) return wrong("out of order, behind");
    if (member.offset_bytes - last.offset_bytes < last.size_bytes) return wrong("inside of");
  }
  return {};
}

/// Samples are numbered from 0 without a gap, and neighbours are in one where names say so.
Result<void> check_samples(const std::string& path, const std::vector<ForeignMember>& members) {
  std::uint64_t sample = 0;
  std::optional<std::string> last_key;
  std::string field;
  for (const ForeignMember& member : members) {
    const auto key = formats::split_member_name(member.name, field);
    const bool goes_on = member.sample == sample;
    const bool is_next = last_key && member.sample == sample + 1;
    // What belongs to no sample of ours, another loader puts where its own rule says.
    const bool is_known = last_key && key && !last_key->empty();
    if (!(goes_on || is_next) || (is_known && goes_on != (*last_key == *key))) {
      return disagree(path, fmt::format("it has {} in sample {}, and by the names it is in another",
                                        printable(member.name), member.sample));
    }
    sample = member.sample;
    last_key = std::string(key.value_or(""));
  }
  return {};
}

/// Goes along the index while the shard's headers are read.
class Comparison {
 public:
  Comparison(const std::string& path, const ForeignShard& foreign)
      : path_(path), foreign_(foreign) {}

  Result<void> take(const TarMember& member) {
    if (member.kind != TarMember::Kind::kFile) return {};
    const auto key = formats::split_member_name(member.name, field_);
    count(key);
    if (!foreign_.members) return {};
    if (next_ < foreign_.members->size()) {
      const ForeignMember& entry = (*foreign_.members)[next_];
      if (entry.offset_bytes < member.data_offset_bytes) return no_such(entry);
      if (entry.offset_bytes == member.data_offset_bytes) {
        ++next_;
        return is_same(member, key, entry) ? Result<void>() : differ(member, entry);
      }
    }
    if (!key) return {};
    return disagree(path_, fmt::format("it lacks {} at offset {}", printable(member.name),
                                       member.data_offset_bytes));
  }

  Result<void> end(const ShardScan& scan) const {
    if (foreign_.size_bytes && *foreign_.size_bytes != scan.identity.size_bytes) {
      return disagree(path_, fmt::format("a file of {} bytes, and it has {}", *foreign_.size_bytes,
                                         scan.identity.size_bytes));
    }
    if (foreign_.members && next_ < foreign_.members->size()) {
      return no_such((*foreign_.members)[next_]);
    }
    return foreign_.sample_count ? compare_count(*foreign_.sample_count, scan) : Result<void>();
  }

 private:
  void count(std::optional<std::string_view> key) {
    if (!key) {
      ++keyless_count_;
    } else if (key_ != *key) {
      key_ = std::string(*key);
      ++run_count_;
    }
  }

  bool is_same(const TarMember& member, std::optional<std::string_view> key,
               const ForeignMember& entry) {
    if (member.size_bytes != entry.size_bytes) return false;
    if (member.name == entry.name) return true;
    if (!foreign_.folds_field_case || !key) return false;
    std::string entry_field;
    return formats::split_member_name(entry.name, entry_field) == key && entry_field == field_;
  }

  Result<void> compare_count(std::uint64_t stated, const ShardScan& scan) const {
    const auto wrong = [&](std::uint64_t found) {
      return disagree(path_, fmt::format("{} samples, and there are {}", stated, found));
    };
    if (foreign_.members) {
      const std::vector<ForeignMember>& members = *foreign_.members;
      const std::uint64_t found = members.empty() ? 0 : members.back().sample + 1;
      return stated == found ? Result<void>() : wrong(found);
    }
    // Tools differ in whether members without a key make samples, and parts that lie apart two.
    const bool is_possible = stated == scan.sample_count() ||
                             (stated >= run_count_ && stated - run_count_ <= keyless_count_);
    return is_possible ? Result<void>() : wrong(scan.sample_count());
  }

  Result<void> differ(const TarMember& member, const ForeignMember& entry) const {
    return disagree(path_, fmt::format("at offset {} it has {} of {} bytes, and there is {} of {} "
                                       "bytes",
                                       entry.offset_bytes, printable(entry.name), entry.size_bytes,
                                       printable(member.name), member.size_bytes));
  }

  Result<void> no_such(const ForeignMember& entry) const {
    return disagree(path_, fmt::format("it has {} at offset {}, and there is no such member",
                                       printable(entry.name), entry.offset_bytes));
  }

  const std::string& path_;
  const ForeignShard& foreign_;
  std::size_t next_ = 0;  // Entry of the index that comes next.
  std::string field_;
  std::optional<std::string> key_;
  std::uint64_t run_count_ = 0;  // Of neighbours with one key.
  std::uint64_t keyless_count_ = 0;
};

}  // namespace

Result<ShardScan> scan_by_index(const std::string& path, const ForeignShard& foreign,
                                const formats::LabelSource& labels) {
  if (foreign.members) {
    if (const Result<void> good = check_places(path, *foreign.members); !good) return good.error();
    if (const Result<void> good = check_samples(path, *foreign.members); !good) return good.error();
  }
  Comparison comparison(path, foreign);
  Result<ShardScan> scan = formats::scan_shard_file(
      path, labels, [&](const TarMember& member) { return comparison.take(member); });
  if (!scan) return scan;
  if (const Result<void> same = comparison.end(*scan); !same) return same.error();
  return scan;
}

}  // namespace feedrace::exchange
