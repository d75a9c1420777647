// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/format.h"
#include "feedrace/formats/shard_set.h"

namespace feedrace::formats {

/// Tar shards by WebDataset's rules: members with the same path up to the first dot of the base
/// name, one behind the other, are a sample; the rest of the name, in lower case, is the field.
class WebdatasetFormat : public Format {
 public:
  std::string_view name() const noexcept override { return "webdataset"; }
  bool accepts(const std::vector<std::string>& sources) const override;
  std::unique_ptr<Dataset> open(const std::vector<std::string>& sources,
                                const OpenOptions& options) const override;
};

/// The same, but gives sets without any image or without any sample as well: for tools that list
/// what there is. Throws Error.
std::unique_ptr<ShardSet> open_shards(const std::vector<std::string>& sources,
                                      const OpenOptions& options = {});

/// What a shard holds, found otherwise than by reading its headers. Throws Error. Called from
/// several threads.
using ReadShard = std::function<ShardScan(const std::string& path)>;

/// `open_shards` with an index whose shards `read` gives, as far as a new one is made; empty: their
/// headers. Nothing is said of shards that a manifest names and the folder lacks.
std::unique_ptr<ShardSet> open_shards(const std::vector<std::string>& sources,
                                      const OpenOptions& options, const ReadShard& read);

/// What is stored as the index of shards, and whether a loader would take it as it is.
struct StoredIndexState {
  enum class Kind {
    kNone,
    kFresh,
    kStale,       ///< Shards are new, changed or gone, or lie in another order.
    kUnreadable,  ///< Damaged, or of another version.
  };
  Kind kind = Kind::kNone;
  std::string path;                 ///< Of a fresh one.
  std::string reason;               ///< Why it is stale or unreadable, fit to print.
  std::optional<ShardIndex> index;  ///< A fresh one.
};

/// Looks where a loader would look; writes nothing. Throws Error as `find_shards`.
StoredIndexState look_at_index(const std::vector<std::string>& sources,
                               const OpenOptions& options = {});

}  // namespace feedrace::formats
