// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

namespace feedrace::pack {

/// Samples that are not to be packed: a list of `formats::BadSample`s, of which shard, key and
/// reason count.
class ExcludeList {
 public:
  ExcludeList() = default;
  /// Throws Error: kNotFound, kIo; kCorruptData, which names file and line.
  explicit ExcludeList(const std::string& path);

  /// Why the sample is on the list; null: it is not. Shards are told apart by their base names.
  const std::string* reason(std::string_view shard, std::string_view key) const;
  std::uint64_t size() const noexcept { return reasons_.size(); }
  /// 16 hex digits over the content; the order of lines does not count.
  std::string fingerprint() const;

 private:
  void take(std::string_view line, const std::string& path, std::uint64_t number);

  std::unordered_map<std::string, std::string> reasons_;  // By shard, a 0 byte, and key.
};

}  // namespace feedrace::pack
