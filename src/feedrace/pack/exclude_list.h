// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace feedrace::pack {

/// Samples that are not to be packed: a list of `formats::BadSample`s, of which shard, key and
/// reason count. A sample that is in it more than once counts once.
class ExcludeList {
 public:
  ExcludeList() = default;
  /// Throws Error: kNotFound, kIo; kCorruptData, which names file and line.
  explicit ExcludeList(const std::string& path);

  /// Finds out which of the sources' `shards` the listed ones are: by the path that the list has,
  /// as it is or from the folder of the list, else by the name, where nothing is at that path (the
  /// shards were moved) and no other shard has the name. Once, before anything below is asked for.
  /// Throws Error kInvalidArgument, which names file and line, where a name fits several.
  void find_shards(const std::vector<std::string>& shards);

  /// Why the sample is on the list; null: it is not. `shard` is one of those that were given, or
  /// "" for a file of its own.
  const std::string* reason(const std::string& shard, std::string_view key) const;
  /// Different samples of shards that are among the sources, of shards that are not, and files.
  std::uint64_t size() const noexcept { return reasons_.size() + stray_count_; }
  /// 16 hex digits over the samples in shards of the sources, told apart by their numbers there,
  /// and files; the order of lines does not count, nor where the shards lie.
  std::string fingerprint() const;

 private:
  struct Line {
    std::uint64_t number = 0;
    std::string shard;
    std::string key;
    std::string reason;
  };

  void take(std::string_view line, std::uint64_t number);

  std::string path_;
  std::vector<Line> lines_;
  std::unordered_map<std::string, std::string> numbers_;  // Of the sources' shards, as text.
  std::unordered_map<std::string, std::string> reasons_;  // By number or "", a 0 byte, and key.
  std::uint64_t stray_count_ = 0;
};

}  // namespace feedrace::pack
