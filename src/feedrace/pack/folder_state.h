// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/pack/journal.h"
#include "feedrace/pack/manifest.h"
#include "feedrace/pack/pack_files.h"

namespace feedrace::pack {

/// What earlier runs have left in a folder.
struct FolderState {
  std::optional<Manifest> manifest;
  std::map<std::string, JournalContent> journals;  ///< By their names.
  std::vector<std::string> names;                  ///< All but hidden ones.

  /// Failures: kIo; kInvalidArgument: a manifest or journal that can't be read.
  static Result<FolderState> read(const PackFolder& folder);

  bool is_empty() const noexcept { return !manifest && journals.empty(); }
  /// Whether shard `number` is there as its journal says; null: it is not.
  const JournalShard* finished(const PackFolder& folder, const std::string& prefix,
                               std::uint64_t number) const;
};

/// Throws Error kInvalidArgument where a run of `head` and `part` must not work in the folder: it
/// holds something else, or was begun with other sources or options.
void check_fits(const PackFolder& folder, const FolderState& state, const JournalHead& head,
                const PackPart& part, const std::string& prefix);

/// The manifest's options: the run's, and what its shards were made of.
std::string manifest_options(const JournalHead& head);

}  // namespace feedrace::pack
