// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "feedrace/format.h"
#include "feedrace/formats/shard_set.h"

namespace feedrace::exchange {

struct ImportedIndex {
  std::unique_ptr<formats::ShardSet> set;
  std::string kind;  ///< "DALI", "wids", "Energon".
  /// Shards whose headers were all read, as the index does not say enough of them.
  std::uint64_t read_shard_count = 0;
};

/// Makes our index of shards from that of another loader, which lies at `index_path`, and stores it
/// as `open_shards` does. Throws Error: as `open_foreign_index` and `open_shards`; kNotFound where
/// the index lacks a shard or has one that is not among them; kCorruptData where it says something
/// else than a shard, and nothing is stored then.
ImportedIndex import_index(const std::vector<std::string>& shards, const std::string& index_path,
                           formats::OpenOptions options);

}  // namespace feedrace::exchange
