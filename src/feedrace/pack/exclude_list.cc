// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/exclude_list.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/bad_sample.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/list_lines.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::pack {
namespace {

namespace fs = std::filesystem;

std::string name_of(std::string_view shard, std::string_view key) {
  return fmt::format("{}{}{}", shard, '\0', key);
}

/// The same of every path that leads to a file; nothing where there is none.
std::optional<std::string> canonical(const std::string& path) {
  std::error_code error;
  const fs::path found = fs::canonical(path, error);
  if (error) return std::nullopt;
  return found.string();
}

/// Finds the sources' shard that a list means, by its number; one given twice has the first.
class ShardFinder {
 public:
  ShardFinder(const std::vector<std::string>& shards, const std::string& list)
      : shards_(shards), list_(list) {
    for (std::size_t i = 0; i < shards.size(); ++i) {
      const auto [same, is_new] = by_path_.emplace(canonical(shards[i]).value_or(shards[i]), i);
      numbers_.push_back(same->second);
      if (is_new) by_name_[formats::base_name(shards[i])].push_back(i);
    }
  }

  /// Of each of the shards.
  const std::vector<std::size_t>& numbers() const noexcept { return numbers_; }

  /// Nothing: it is not among the sources. `line` is for messages.
  std::optional<std::size_t> find(const std::string& shard, std::uint64_t line) {
    const auto [at, is_new] = found_.try_emplace(shard);
    if (is_new) at->second = find_new(shard, line);
    return at->second;
  }

 private:
  std::optional<std::size_t> find_new(const std::string& shard, std::uint64_t line) {
    bool is_there = false;
    for (const std::string& path : {shard, formats::folder_of(list_) + "/" + shard}) {
      const std::optional<std::string> place = canonical(path);
      is_there |= place.has_value();
      const auto found = place ? by_path_.find(*place) : by_path_.end();
      if (found != by_path_.end()) return take(found->second, shard, line);
      if (shard.starts_with('/')) break;
    }
    // A path that leads to another shard is not of one that happens to have its name.
    if (is_there && shard.find('/') != std::string::npos) return std::nullopt;
    const auto named = by_name_.find(formats::base_name(shard));
    if (named == by_name_.end()) return std::nullopt;
    if (named->second.size() > 1) {
      refuse(line, fmt::format("shard {} may be {} or {} of the sources", printable(shard),
                               printable(shards_[named->second[0]]),
                               printable(shards_[named->second[1]])));
    }
    return take(named->second[0], shard, line);
  }

  /// Two paths that lead elsewhere, or nowhere, are of two shards, though their name is one.
  std::size_t take(std::size_t number, const std::string& shard, std::uint64_t line) {
    if (shard.find('/') == std::string::npos) return number;
    const std::string path = canonical_of(shard, number);
    const auto [other, is_new] = meant_.emplace(number, path);
    if (!is_new && other->second != path) {
      refuse(line,
             fmt::format("shards {} and {} would both be {} of the sources",
                         printable(other->second), printable(path), printable(shards_[number])));
    }
    return number;
  }

  std::string canonical_of(const std::string& shard, std::size_t number) const {
    for (const std::string& path : {shard, formats::folder_of(list_) + "/" + shard}) {
      const std::optional<std::string> place = canonical(path);
      const auto found = place ? by_path_.find(*place) : by_path_.end();
      if (found != by_path_.end() && found->second == number) return *place;
    }
    return fs::path(shard).lexically_normal().string();
  }

  [[noreturn]] void refuse(std::uint64_t line, const std::string& what) const {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: line {}: {}; name the shard in the list by a path that leads to "
                            "it, from here or from the folder of the list",
                            printable(list_), line, what));
  }

  const std::vector<std::string>& shards_;
  const std::string& list_;
  std::unordered_map<std::string, std::size_t> by_path_;
  std::unordered_map<std::string, std::vector<std::size_t>> by_name_;
  std::vector<std::size_t> numbers_;
  std::unordered_map<std::string, std::optional<std::size_t>> found_;
  std::unordered_map<std::size_t, std::string> meant_;
};

}  // namespace

ExcludeList::ExcludeList(const std::string& path) : path_(path) {
  formats::for_each_line(formats::read_list_file(path), path,
                         [&](std::string_view line, std::uint64_t number) { take(line, number); });
}

void ExcludeList::take(std::string_view line, std::uint64_t number) {
  std::optional<formats::BadSample> sample = formats::BadSample::from_line(line);
  if (!sample) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("{}: line {}: no JSON object with a \"key\"; give a list that feedrace "
                            "verify --bad or a quarantine wrote",
                            printable(path_), number));
  }
  lines_.push_back({number, std::move(sample->shard), std::move(sample->key),
                    sample->reason.empty() ? "listed" : std::move(sample->reason)});
}

void ExcludeList::find_shards(const std::vector<std::string>& shards) {
  ShardFinder finder(shards, path_);
  for (std::size_t i = 0; i < shards.size(); ++i) {
    numbers_.emplace(shards[i], std::to_string(finder.numbers()[i]));
  }
  std::unordered_set<std::string> strays;
  for (Line& line : lines_) {
    const std::optional<std::size_t> number =
        line.shard.empty() ? std::nullopt : finder.find(line.shard, line.number);
    if (number || line.shard.empty()) {
      reasons_.emplace(name_of(number ? std::to_string(*number) : "", line.key),
                       std::move(line.reason));
    } else {
      strays.insert(name_of(line.shard, line.key));
    }
  }
  stray_count_ = strays.size();
  lines_ = {};
}

const std::string* ExcludeList::reason(const std::string& shard, std::string_view key) const {
  if (reasons_.empty()) return nullptr;
  const auto number = numbers_.find(shard);
  if (number == numbers_.end() && !shard.empty()) return nullptr;
  const auto found =
      reasons_.find(name_of(shard.empty() ? std::string_view() : number->second, key));
  return found == reasons_.end() ? nullptr : &found->second;
}

std::string ExcludeList::fingerprint() const {
  std::vector<std::string_view> names;
  names.reserve(reasons_.size());
  for (const auto& [name, reason] : reasons_) names.push_back(name);
  std::sort(names.begin(), names.end());
  formats::Fingerprint fingerprint;
  for (const std::string_view name : names) fingerprint.add_bytes(name);
  return fingerprint.text();
}

}  // namespace feedrace::pack
