// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/packed_set.h"

#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <system_error>
#include <unordered_set>

#include <fmt/format.h>

#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kManifestMark = "\"feedrace manifest\"";
/// Of a hundred thousand shards. A longer one lists samples that were left out, which would take
/// longer to read than all else at the start: verify speaks of it.
constexpr std::uint64_t kMostManifestBytes = std::uint64_t{16} << 20;
constexpr std::size_t kNamesShown = 5;

bool has_journal(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.starts_with(kWorkPrefix) && name.ends_with(kJournalEnding)) return true;
  }
  return false;
}

/// The names of the manifest's shards; nothing where it can't be read, which verify says.
std::optional<std::vector<std::string>> promised_names(const std::string& folder) {
  const std::string path = folder + "/" + kManifestFile;
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error || size > kMostManifestBytes) return std::nullopt;
  const Result<std::string> text = read_whole_file(path);
  if (!text) return std::nullopt;
  const nlohmann::json manifest = parse_shallow_json(*text);
  if (!manifest.is_object() || !manifest.contains("shards") || !manifest["shards"].is_array()) {
    return std::nullopt;
  }
  std::vector<std::string> names;
  for (const nlohmann::json& shard : manifest["shards"]) {
    if (!shard.is_object() || !shard.contains("name")) return std::nullopt;
    std::optional<std::string> name = text_from_json(shard["name"]);
    if (!name) return std::nullopt;
    names.push_back(*std::move(name));
  }
  return names;
}

void note_missing_shards(const std::string& folder, const std::unordered_set<std::string>& found,
                         std::vector<std::string>& notes) {
  const std::optional<std::vector<std::string>> promised = promised_names(folder);
  if (!promised) return;
  std::vector<std::string> missing;
  for (const std::string& name : *promised) {
    if (!found.contains(name)) missing.push_back(name);
  }
  if (missing.empty()) return;
  notes.push_back(fmt::format(
      "{}: {} of {} that {} names {} missing, and no epoch has their samples: {}; copy them again",
      printable(folder), with_commas(missing.size()), counted(promised->size(), "shard"),
      kManifestFile, missing.size() == 1 ? "is" : "are", listed(missing, kNamesShown)));
}

}  // namespace

bool was_packed(const std::string& folder) {
  const Result<Fd> fd = open_for_reading(folder + "/" + kManifestFile);
  if (!fd) return false;
  std::array<char, 256> head{};
  const ssize_t got = read(fd->get(), head.data(), head.size());
  return got > 0 &&
         std::string_view(head.data(), static_cast<std::size_t>(got)).find(kManifestMark) !=
             std::string_view::npos;
}

void note_incomplete_sets(const std::vector<std::string>& sources,
                          const std::vector<std::string>& shards, std::vector<std::string>& notes) {
  std::error_code error;
  for (const std::string& source : sources) {
    if (!fs::is_directory(source, error)) continue;  // Of a pattern the rest was not asked for.
    if (has_journal(source)) {
      notes.push_back(
          fmt::format("{}: being packed, or not packed to its end: only the shards that are "
                      "finished are read; give the same command of feedrace pack again",
                      printable(source)));
    } else if (was_packed(source)) {
      std::unordered_set<std::string> found;
      for (const std::string& shard : shards) {
        if (fs::path(shard).parent_path() == fs::path(source + "/").parent_path()) {
          found.insert(base_name(shard));
        }
      }
      note_missing_shards(source, found, notes);
    }
  }
}

}  // namespace feedrace::formats
