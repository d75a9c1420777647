// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "feedrace/format.h"
#include "feedrace/formats/shard_set.h"

namespace feedrace::exchange {

struct ImportedIndex {
  std::unique_ptr<formats::ShardSet> set;
  std::string kind;  ///< "DALI", "wids", "Energon".
};

/// Makes our index of shards, compares their headers with what the index of another loader at
/// `index_path` says, and stores ours as `open_shards` does. Throws Error: as `open_foreign_index`
/// and `open_shards`; kNotFound where the index lacks a shard or has one that is not among them;
/// kInvalidArgument for two shards of one name, by which indexes know them; kCorruptData where it
/// says something else than a shard. Nothing is stored then.
ImportedIndex import_index(const std::vector<std::string>& shards, const std::string& index_path,
                           formats::OpenOptions options);

}  // namespace feedrace::exchange
