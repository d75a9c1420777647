// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/class_list.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <unordered_set>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/packed_set.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::formats {
namespace {

// A million names of 64 bytes.
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 20;
Result<std::string> read_list(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return system_failure(path, "stat", errno);
  const Failure none{ErrorCode::kCorruptData, "not a text of at most 64 MiB"};
  if (!S_ISREG(status.st_mode)) return none;
  if (static_cast<std::uint64_t>(status.st_size) > kMostBytes) return none;
  return read_whole_file(path);
}

Result<std::vector<std::string>> names_of(std::string_view text) {
  std::vector<std::string> names;
  std::unordered_set<std::string_view> seen;
  const auto wrong = [&](const char* what) {
    return Failure{ErrorCode::kCorruptData, fmt::format("line {} is {}", names.size() + 1, what)};
  };
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    if (name.empty()) return wrong("empty");
    if (name.find('\0') != std::string_view::npos) return wrong("no text");
    if (!seen.insert(name).second) return wrong("there twice");
    names.emplace_back(name);
  }
  return names;
}

}  // namespace

std::vector<std::string> read_class_list(const std::vector<std::string>& shards,
                                         std::vector<std::string>& warnings) {
  if (shards.empty()) return {};
  const std::string folder = folder_of(shards.front());
  const bool is_one_folder = std::all_of(
      shards.begin(), shards.end(), [&](const auto& shard) { return folder_of(shard) == folder; });
  if (!is_one_folder || !was_packed(folder)) return {};
  const std::string path = folder + "/" + kClassListFile;
  const Result<std::string> text = read_list(path);
  if (!text && text.error().code == ErrorCode::kNotFound) return {};
  Result<std::vector<std::string>> names = text ? names_of(*text) : text.error();
  if (names) return *std::move(names);
  warnings.push_back(
      fmt::format("{}: not a class list ({}), so that labels have no names; feedrace verify {} "
                  "says whether more is wrong",
                  printable(path), names.error().message, shell_word(folder)));
  return {};
}

}  // namespace feedrace::formats
