// SPDX-License-Identifier: Apache-2.0
#include "feedrace/exchange/dali_export.h"

#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/member_name.h"
#include "feedrace/formats/output_check.h"
#include "feedrace/formats/parallel.h"
#include "feedrace/formats/pending_file.h"
#include "feedrace/formats/tar_reader.h"

namespace feedrace::exchange {
namespace {

using formats::TarMember;
using formats::TarReader;

/// The lines of one shard's index, member by member. Of the tar itself, since names there may have
/// capital letters that our own index does not keep.
class IdxText {
 public:
  explicit IdxText(std::string shard) : shard_(std::move(shard)) {}

  void add(const TarMember& member) {
    std::string lower_field;
    const auto key = formats::split_member_name(member.name, lower_field);
    if (member.kind != TarMember::Kind::kFile || !key) return;
    const std::string_view field = member.name.substr(key->size() + 1);
    if (member.name.find_first_of(" \t\r\n\v\f") != std::string_view::npos || field.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: member {:?}: DALI's index can't hold names with blanks or "
                              "without an extension; rename it, or pack the shards anew",
                              printable(shard_), printable(member.name)));
    }
    const bool goes_on = last_key_ == *key;
    lines_ += goes_on ? " " : (sample_count_ == 0 ? "" : "\n");
    lines_ +=
        fmt::format("{} {} {} {}", field, member.data_offset_bytes, member.size_bytes, member.name);
    if (goes_on) return;
    last_key_ = *key;
    ++sample_count_;
  }

  std::string text() const {
    if (sample_count_ == 0) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: no samples in the shard, and DALI refuses an empty index; leave "
                              "the shard out",
                              printable(shard_)));
    }
    return fmt::format("v1.2 {}\n{}\n", sample_count_, lines_);
  }

 private:
  const std::string shard_;
  std::string lines_;
  std::optional<std::string> last_key_;
  std::uint64_t sample_count_ = 0;
};

void write_one(const std::string& shard, const std::string& target) {
  const Result<formats::FileSource> source = formats::FileSource::open(shard);
  if (!source) raise(source.error());
  TarReader reader(*source, shard);
  IdxText text(shard);
  TarMember member;
  while (true) {
    const Result<bool> found = reader.next(member);
    if (!found) raise(found.error());
    if (!*found) break;
    text.add(member);
  }
  const Result<void> put = formats::put_file(target, text.text());
  if (!put) raise(put.error());
}

bool is_dali_index(std::string_view head) { return head.starts_with("v1."); }

}  // namespace

std::vector<std::string> write_dali_indexes(const std::vector<std::string>& shards,
                                            const std::string& folder, std::size_t thread_count) {
  std::vector<std::string> targets;
  std::unordered_map<std::string, std::string> taken;
  for (const std::string& shard : shards) {
    const std::string in = folder.empty() ? formats::folder_of(shard) : folder;
    targets.push_back(in + "/" + dali_index_name(formats::base_name(shard)));
    const auto [other, is_new] = taken.emplace(targets.back(), shard);
    if (is_new) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} and {}: both would have the index {}; rename one of them",
                            printable(other->second), printable(shard), printable(targets.back())));
  }
  for (const std::string& target : targets) {
    formats::check_output("the index", target, {shards, {}, nullptr}, is_dali_index);
  }
  formats::parallel_for(shards.size(), thread_count,
                        [&](std::size_t i) { write_one(shards[i], targets[i]); });
  return targets;
}

}  // namespace feedrace::exchange
