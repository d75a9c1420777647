// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"

namespace feedrace::exchange {

struct EnergonShard {
  std::string name;  ///< Path under the folder of the set.
  std::uint64_t sample_count = 0;
};

/// The shards that `.info.json`, else `.info.yaml`, in a folder `.nv-meta` names, in order. Throws
/// Error: kNotFound, kIo, kCorruptData.
std::vector<EnergonShard> read_energon_info(const std::string& folder);

/// Of the YAML that Energon writes: `shard_counts:` and a line a shard. Failure kCorruptData for
/// other text, which names the line of `path`.
Result<std::vector<EnergonShard>> parse_energon_yaml(std::string_view text,
                                                     const std::string& path);

/// Of its JSON. Failure kCorruptData, which names the shard.
Result<std::vector<EnergonShard>> parse_energon_json(std::string_view text,
                                                     const std::string& path);

}  // namespace feedrace::exchange
