// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace feedrace::exchange {

struct WidsShard {
  std::string url;  ///< Relative ones begin where the list lies.
  std::uint64_t sample_count = 0;
  std::uint64_t size_bytes = 0;
};

/// Whether a file that begins so is a list of wids.
bool is_wids_index(std::string_view head);

/// Writes the shard list that `wids.ShardListDataset` takes. Throws Error: kIo, kInvalidArgument
/// for a name that JSON can't hold.
void write_wids_index(const std::string& path, const std::string& name,
                      const std::vector<WidsShard>& shards);

}  // namespace feedrace::exchange
