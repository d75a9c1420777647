// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace feedrace::formats {

/// Says that a folder holds packed shards, and which.
inline constexpr const char* kManifestFile = "manifest.json";
/// Begins the names of files that only a run of pack that is not finished has.
inline constexpr std::string_view kWorkPrefix = ".feedrace-pack.";
/// Ends the name of the one that lists what is done.
inline constexpr std::string_view kJournalEnding = ".journal";

/// True of a folder with a manifest of ours.
bool was_packed(const std::string& folder);

/// Of folders among `sources` that were packed into: a line in `notes` for a run of pack that did
/// not end, and for shards that the manifest names and `shards` lacks. Reads of the folder no more
/// than names and the manifest.
void note_incomplete_sets(const std::vector<std::string>& sources,
                          const std::vector<std::string>& shards, std::vector<std::string>& notes);

}  // namespace feedrace::formats
