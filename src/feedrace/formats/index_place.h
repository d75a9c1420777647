// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/formats/index_files.h"

namespace feedrace::formats {

/// Name of the index of a set, `NAME.frindex`: `shards` for a folder, the file's own name for one
/// file, the pattern's for a pattern. A hash of sources and `options` is in it where the name alone
/// would not tell two indexes apart: odd characters, several sources, options that are not the
/// default (`options` not empty).
std::string index_name(const std::vector<std::string>& sources, std::string_view options);

/// The user's folders for indexes of sets that cannot be written to, the preferred one first:
/// `cache_dir` if given; else $XDG_CACHE_HOME/feedrace or ~/.cache/feedrace, then
/// $TMPDIR/feedrace-<uid>.
std::vector<std::string> cache_candidates(const std::string& cache_dir);

/// True when indexes in cache folder `path` may be trusted: it is ours and nobody else may write to
/// it.
bool is_own_folder(const std::string& path) noexcept;

/// The first of the candidates that can be written to, made if absent. Failure: kIo, of the last
/// one.
Result<std::string> make_cache_folder(const std::string& cache_dir);

/// A new index on its way into a folder: written under a name of its own, then put in place as a
/// whole. Until then, and if it is dropped, nothing of it is seen under the final name.
class PendingIndex {
 public:
  /// Also removes what builds that died left behind. Failure: kIo (read-only, permission, disk
  /// full).
  static Result<std::unique_ptr<PendingIndex>> create(const std::string& folder,
                                                      const std::string& name);
  ~PendingIndex();

  FolderFiles& files() noexcept { return *files_; }
  /// Puts it in place of whatever is there, in one step where the file system can. Failure: kIo.
  Result<void> publish();

 private:
  PendingIndex(std::string temporary, std::string target, std::unique_ptr<FolderFiles> files)
      : temporary_(std::move(temporary)), target_(std::move(target)), files_(std::move(files)) {}

  std::string temporary_;
  std::string target_;
  std::unique_ptr<FolderFiles> files_;
};

/// Removes temporary folders of index `name` that no live process is writing to. Those younger than
/// an hour are left alone.
void remove_stale_builds(const std::string& folder, const std::string& name) noexcept;
/// Removes temporary folders of indexes of any name and age that no live process is writing to: for
/// who keeps others out of `folder`. Does nothing where the file system has no locks.
void remove_abandoned_builds(const std::string& folder) noexcept;

}  // namespace feedrace::formats
