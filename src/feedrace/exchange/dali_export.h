// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace feedrace::exchange {

/// "train-0001.idx" for "train-0001.tar": the name that DALI's own program gives it.
std::string dali_index_name(const std::string& shard_name);

/// Writes one .idx file a shard into `folder`, or beside each where it is empty, for DALI's
/// readers.webdataset; each is put in place as a whole. Returns their paths in order. Throws Error:
/// what `TarReader` fails with; kInvalidArgument for names with blanks, which the format can't
/// hold, for shards whose .idx files would have one name, and for a shard without samples; kIo.
std::vector<std::string> write_dali_indexes(const std::vector<std::string>& shards,
                                            const std::string& folder, std::size_t thread_count);

}  // namespace feedrace::exchange
