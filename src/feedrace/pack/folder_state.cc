// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/folder_state.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/text.h"

namespace feedrace::pack {
namespace {

constexpr const char* kSizesOption = "source_sizes";
/// Of indexes, which `feedrace index` makes as well, by names of its own.
constexpr std::string_view kIndexEnding = ".frindex";
// What `feedrace index --format` writes beside the shards.
constexpr std::string_view kDaliEnding = ".idx";
constexpr std::string_view kWidsList = "shardindex.json";

[[noreturn]] void refuse(const PackFolder& folder, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{}: {}", printable(folder.path()), why));
}

/// True for what a run of this set makes.
bool is_ours(const std::string& name, const JournalHead& head, const std::string& prefix) {
  if (name == kClassListFile || name == kManifestFile || name.ends_with(kIndexEnding)) return true;
  if (name == kWidsList) return true;
  if (name.ends_with(kDaliEnding)) {
    const std::string shard = name.substr(0, name.size() - kDaliEnding.size()) + ".tar";
    return is_ours(shard, head, prefix);
  }
  for (std::size_t digits = 6; digits <= 20; ++digits) {
    if (name.size() != prefix.size() + 1 + digits + 4) continue;
    const std::string number = name.substr(prefix.size() + 1, digits);
    if (number.find_first_not_of("0123456789") != std::string::npos) return false;
    const std::uint64_t value = std::strtoull(number.c_str(), nullptr, 10);
    return value < head.shard_count && name == shard_name(prefix, value);
  }
  return false;
}

void check_names(const PackFolder& folder, const FolderState& state, const JournalHead& head,
                 const std::string& prefix) {
  for (const std::string& name : state.names) {
    const bool is_known = state.is_empty() ? name == "lost+found" : is_ours(name, head, prefix);
    if (!is_known) {
      refuse(folder, fmt::format("holds {}, which is not of this set; give an empty folder",
                                 printable(name)));
    }
  }
}

/// The manifest's options without what its shards were made of.
std::string without_sizes(const std::string& options) {
  nlohmann::json json = nlohmann::json::parse(options);
  if (json.is_object()) json.erase(kSizesOption);
  return json.dump();
}

/// A manifest of this set that names other shards or samples than the set has was changed.
void check_sums(const PackFolder& folder, const Manifest& manifest, const JournalHead& head) {
  const std::uint64_t lost = manifest.left_out.size() - head.left_out.size();
  const bool fits = manifest.left_out.size() >= head.left_out.size() &&
                    manifest.shards.size() == head.shard_count &&
                    manifest.sample_count() + lost == head.sample_count;
  if (fits) return;
  refuse(folder, fmt::format("{} names {} samples in {} shards, and there are {} in {}; give an "
                             "empty folder",
                             kManifestFile, with_commas(manifest.sample_count()),
                             with_commas(manifest.shards.size()), with_commas(head.sample_count),
                             with_commas(head.shard_count)));
}

void check_manifest(const PackFolder& folder, const Manifest& manifest, const JournalHead& head) {
  using nlohmann::json;
  if (manifest.source == head.source &&
      json::parse(manifest.options) == json::parse(manifest_options(head))) {
    return check_sums(folder, manifest, head);
  }
  std::string what = "samples came, went or changed their labels";
  if (manifest.source == head.source) {
    what = option_difference(head.options, without_sizes(manifest.options));
    if (what.empty()) what = "files of the sources have other sizes than when it was packed";
  }
  refuse(folder, fmt::format("holds a finished set, and {}; give an empty folder", what));
}

}  // namespace

std::string manifest_options(const JournalHead& head) {
  nlohmann::json options = nlohmann::json::parse(head.options);
  options[kSizesOption] = head.sizes;
  return options.dump();
}

Result<FolderState> FolderState::read(const PackFolder& folder) {
  FolderState state;
  Result<std::vector<std::string>> names = folder.names();
  if (!names) return names.error();
  for (std::string& name : *names) {
    if (name.starts_with(kWorkPrefix) && name.ends_with(formats::kJournalEnding)) {
      const Result<std::string> text = folder.read(name);
      if (!text && text.error().code == ErrorCode::kNotFound) continue;
      if (!text) return text.error();
      Result<JournalContent> content = JournalContent::parse(*text);
      if (!content) {
        return Failure{ErrorCode::kInvalidArgument,
                       fmt::format("{}: {}; give an empty folder", printable(folder.path_of(name)),
                                   content.error().message)};
      }
      state.journals.emplace(std::move(name), *std::move(content));
    } else if (!name.starts_with('.')) {
      state.names.push_back(std::move(name));
    }
  }
  Result<Manifest> manifest = read_manifest(folder.path());
  if (manifest) {
    state.manifest = *std::move(manifest);
  } else if (manifest.error().code != ErrorCode::kNotFound) {
    return Failure{ErrorCode::kInvalidArgument,
                   manifest.error().message + "; give an empty folder"};
  }
  return state;
}

const JournalShard* FolderState::finished(const PackFolder& folder, const std::string& prefix,
                                          std::uint64_t number) const {
  for (const auto& [name, content] : journals) {
    const auto found = content.shards.find(number);
    if (found == content.shards.end()) continue;
    struct stat status{};
    const std::string file = shard_name(prefix, number);
    const bool is_there =
        fstatat(folder.fd(), file.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(status.st_mode) && found->second.shard.name == file &&
        static_cast<std::uint64_t>(status.st_size) == found->second.shard.size_bytes;
    if (is_there) return &found->second;
  }
  return nullptr;
}

void check_fits(const PackFolder& folder, const FolderState& state, const JournalHead& head,
                const PackPart& part, const std::string& prefix) {
  const std::string own = journal_name(part);
  for (const auto& [name, content] : state.journals) {
    const std::string difference = head.difference(content.head, name == own);
    if (!difference.empty()) {
      refuse(folder, fmt::format("was begun with other sources or options: {}; give those again, "
                                 "or an empty folder",
                                 difference));
    }
    const bool is_of_whole = name == journal_name({});
    if (is_of_whole != part.is_whole()) {
      refuse(folder, part.is_whole()
                         ? "is being packed in parts; pack the others, then --finish, or give an "
                           "empty folder"
                         : "was begun as a whole; go on without --part, or give an empty folder");
    }
  }
  // What differs says more than a name that is not known for that.
  if (state.manifest && state.journals.empty()) check_manifest(folder, *state.manifest, head);
  check_names(folder, state, head, prefix);
}

}  // namespace feedrace::pack
