// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"

namespace feedrace::exchange {

/// A member as another loader's index names it.
struct ForeignMember {
  std::string name;  ///< As in the tar.
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t sample = 0;  ///< Number of its sample in the index of the shard, from 0.
};

/// What another loader's index says of one shard. Nothing of it is true until it was compared with
/// the shard.
struct ForeignShard {
  std::optional<std::uint64_t> size_bytes;
  std::optional<std::uint64_t> sample_count;
  /// In the order of the index; nothing where it knows shards only.
  std::optional<std::vector<ForeignMember>> members;
  /// A-Z of what stands behind the first dot of a name counts as a-z.
  bool folds_field_case = false;
};

/// The index of another loader. Thread-safe.
class ForeignIndex {
 public:
  virtual ~ForeignIndex() = default;
  virtual std::string_view kind() const noexcept = 0;  ///< "DALI", "wids", "Energon".
  /// Base names of its shards; empty where each shard has an index of its own.
  virtual const std::vector<std::string>& shard_names() const noexcept = 0;
  /// Failures, with the index's name in front: kNotFound where it does not know the shard,
  /// kCorruptData, kIo.
  virtual Result<ForeignShard> shard(const std::string& path) const = 0;
};

/// Opens what lies at `path`: a folder with DALI's .idx files or one of them, a wids .json, a
/// folder .nv-meta of Energon or one that has it. Throws Error: kNotFound, kIo, kCorruptData,
/// kInvalidArgument for what is none of these.
std::unique_ptr<ForeignIndex> open_foreign_index(const std::string& path);

/// No list of shards is larger: a million shards with long names take less.
inline constexpr std::uint64_t kMostListBytes = std::uint64_t{256} << 20;

/// The text of an index. Failures: kNotFound, kIo (what is no regular file, too); kCorruptData for
/// one of more than `most_bytes`, of which nothing is read.
Result<std::string> read_index_text(const std::string& path, std::uint64_t most_bytes);

// One a file of its own name.
std::unique_ptr<ForeignIndex> open_dali_index(const std::string& folder);
std::unique_ptr<ForeignIndex> open_wids_index(const std::string& file);
std::unique_ptr<ForeignIndex> open_energon_index(const std::string& folder);

}  // namespace feedrace::exchange
