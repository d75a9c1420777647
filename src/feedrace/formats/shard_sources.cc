// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/shard_sources.h"

#include <dirent.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::formats {
namespace {

constexpr std::size_t kMaxExpanded = 1'000'000;
/// Of missing shards that a message names.
constexpr std::size_t kNamesShown = 3;

using Names = std::vector<std::string>;

void check_count(std::size_t count, std::string_view pattern) {
  if (count <= kMaxExpanded) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{}: stands for more than {} names; use a glob (*) or the folder",
                          printable(pattern), with_commas(kMaxExpanded)));
}

/// Position of the brace that closes the one at `open`.
std::optional<std::size_t> closing_brace(std::string_view text, std::size_t open) {
  std::size_t depth = 0;
  for (std::size_t i = open; i < text.size(); ++i) {
    if (text[i] == '{') ++depth;
    if (text[i] == '}' && --depth == 0) return i;
  }
  return std::nullopt;
}

/// The parts between commas that are not inside inner braces.
std::vector<std::string_view> split_alternatives(std::string_view body) {
  std::vector<std::string_view> parts;
  std::size_t depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < body.size(); ++i) {
    if (body[i] == '{') ++depth;
    if (body[i] == '}') --depth;
    if (body[i] == ',' && depth == 0) {
      parts.push_back(body.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  parts.push_back(body.substr(begin));
  return parts;
}

std::optional<std::uint64_t> whole_number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "000..499", in either direction; nothing when it is no range.
std::optional<Names> expand_range(std::string_view body, std::string_view pattern) {
  const std::size_t dots = body.find("..");
  if (dots == std::string_view::npos) return std::nullopt;
  const std::string_view left = body.substr(0, dots);
  const std::string_view right = body.substr(dots + 2);
  const auto first = whole_number(left);
  const auto last = whole_number(right);
  if (!first || !last) return std::nullopt;
  const std::uint64_t distance = *first < *last ? *last - *first : *first - *last;
  if (distance >= kMaxExpanded) check_count(kMaxExpanded + 1, pattern);
  const auto is_padded = [](std::string_view bound) { return bound.size() > 1 && bound[0] == '0'; };
  const std::size_t width =
      is_padded(left) || is_padded(right) ? std::max(left.size(), right.size()) : 0;
  Names names;
  for (std::uint64_t i = 0; i <= distance; ++i) {
    names.push_back(fmt::format("{:0{}}", *first < *last ? *first + i : *first - i, width));
  }
  return names;
}

/// What one pair of braces stands for; nothing when it is plain text.
std::optional<Names> expand_body(std::string_view body, std::string_view pattern) {
  if (auto range = expand_range(body, pattern)) return range;
  const std::vector<std::string_view> parts = split_alternatives(body);
  if (parts.size() < 2) return std::nullopt;
  Names names;
  for (const std::string_view part : parts) {
    for (std::string& name : expand_braces(part)) names.push_back(std::move(name));
    check_count(names.size(), pattern);
  }
  return names;
}

bool is_pattern(std::string_view source) {
  return source.find_first_of("{*?[") != std::string_view::npos;
}

bool is_glob(std::string_view source) {
  return source.find_first_of("*?[") != std::string_view::npos;
}

bool has_shard_ending(std::string_view name) {
  constexpr std::array<std::string_view, 10> kEndings = {
      ".tar",    ".tgz",     ".tbz2",   ".txz",     ".tzst",
      ".tar.gz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.lz4"};
  return std::any_of(kEndings.begin(), kEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

std::optional<struct stat> status_of(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

struct FolderContent {
  Names shards;
  Names no_files;  ///< Named like shards, but links to nothing, pipes, sockets, devices.
  std::size_t folder_count = 0;
};

FolderContent list_folder(const std::string& path) {
  struct CloseDir {
    void operator()(DIR* dir) const noexcept { closedir(dir); }
  };
  const std::unique_ptr<DIR, CloseDir> dir(opendir(path.c_str()));
  if (!dir) raise(system_failure(path, "open folder", errno));
  FolderContent content;
  errno = 0;
  while (const dirent* entry = readdir(dir.get())) {
    const std::string_view name = entry->d_name;
    if (name.starts_with('.')) continue;
    if (entry->d_type == DT_DIR && !name.ends_with(".frindex")) ++content.folder_count;
    if (entry->d_type == DT_DIR || !has_shard_ending(name)) continue;
    const std::string full = fmt::format("{}{}{}", path, path.ends_with('/') ? "" : "/", name);
    const auto status = status_of(full);
    const bool is_file = status && S_ISREG(status->st_mode);
    (is_file ? content.shards : content.no_files).push_back(full);
    errno = 0;
  }
  if (errno != 0) raise(system_failure(path, "read folder", errno));
  std::sort(content.shards.begin(), content.shards.end());
  return content;
}

Names match_glob(const std::string& pattern) {
  glob_t matches{};
  // GLOB_NOSORT, then our own sort: glob's own order follows the locale.
  const int rc = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &matches);
  Names names;
  if (rc == 0) names.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  globfree(&matches);
  std::sort(names.begin(), names.end());
  return names;
}

[[noreturn]] void fail_missing(const std::string& source, const Names& missing, std::size_t count) {
  throw Error(ErrorCode::kNotFound,
              fmt::format("{}: {} of {} shards missing: {}; check the pattern, or copy them",
                          printable(source), missing.size(), count, listed(missing, kNamesShown)));
}

/// A pattern's shards, in the order of their names.
Names expand_pattern(const std::string& source) {
  Names found;
  Names missing;
  const Names names = expand_braces(source);
  for (const std::string& name : names) {
    if (is_glob(name) && !status_of(name)) {
      Names matches = match_glob(name);
      if (matches.empty()) missing.push_back(name);
      found.insert(found.end(), matches.begin(), matches.end());
    } else if (status_of(name)) {
      found.push_back(name);
    } else {
      missing.push_back(name);
    }
  }
  if (!missing.empty() && names.size() > 1) fail_missing(source, missing, names.size());
  if (found.empty()) {
    throw Error(ErrorCode::kNotFound, fmt::format("{}: no file matches; check the pattern and the "
                                                  "working folder",
                                                  printable(source)));
  }
  std::sort(found.begin(), found.end());
  return found;
}

void add_folder(const std::string& source, ShardSources& out) {
  const FolderContent content = list_folder(source);
  if (content.shards.empty()) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("{}: no .tar files in the folder; give a folder of shards or a pattern",
                            printable(source)));
  }
  if (content.folder_count > 0) {
    out.warnings.push_back(fmt::format("{}: only the shards are read: {} beside {} left out",
                                       printable(source), counted(content.folder_count, "folder"),
                                       counted(content.shards.size(), "shard")));
  }
  // A link whose shard is gone, most likely: without it the epoch would be shorter in silence.
  if (!content.no_files.empty()) {
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("{}: {} of the names of shards lead to no file (a dangling link, pipe or "
                    "device), such as {}; restore or remove them",
                    printable(source), content.no_files.size(),
                    printable(content.no_files.front())));
  }
  out.paths.insert(out.paths.end(), content.shards.begin(), content.shards.end());
}

}  // namespace

std::vector<std::string> expand_braces(std::string_view pattern) {
  for (std::size_t open = pattern.find('{'); open != std::string_view::npos;
       open = pattern.find('{', open + 1)) {
    const auto close = closing_brace(pattern, open);
    if (!close) break;
    const auto bodies = expand_body(pattern.substr(open + 1, *close - open - 1), pattern);
    if (!bodies) continue;
    const Names tails = expand_braces(pattern.substr(*close + 1));
    check_count(bodies->size() * tails.size(), pattern);
    Names names;
    for (const std::string& body : *bodies) {
      for (const std::string& tail : tails) {
        names.push_back(fmt::format("{}{}{}", pattern.substr(0, open), body, tail));
      }
    }
    return names;
  }
  return {std::string(pattern)};
}

bool look_like_shards(const std::vector<std::string>& sources) {
  return !sources.empty() &&
         std::all_of(sources.begin(), sources.end(), [](const std::string& source) {
           const auto status = status_of(source);
           if (!status) return is_pattern(source) || has_shard_ending(source);
           if (!S_ISDIR(status->st_mode)) return has_shard_ending(source);
           return !list_folder(source).shards.empty();
         });
}

ShardSources find_shards(const std::vector<std::string>& sources) {
  ShardSources out;
  for (const std::string& source : sources) {
    const auto status = status_of(source);
    if (status && S_ISDIR(status->st_mode)) {
      add_folder(source, out);
    } else if (status) {
      out.paths.push_back(source);
    } else if (is_pattern(source)) {
      const Names found = expand_pattern(source);
      out.paths.insert(out.paths.end(), found.begin(), found.end());
    } else {
      throw Error(ErrorCode::kNotFound,
                  fmt::format("{}: no such file or folder; check the path", printable(source)));
    }
  }
  return out;
}

}  // namespace feedrace::formats
