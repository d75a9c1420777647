// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "feedrace/error.h"
#include "feedrace/exchange/foreign_index.h"
#include "feedrace/formats/shard_scan.h"

namespace feedrace::exchange {

/// Scans one shard, as `scan_shard_file` does, and compares every header in it with what another
/// loader's index says: name, offset and size of each member, their order, and which of them are
/// one sample. Members that belong to no sample may be absent from the index; what is in it must be
/// in the shard. An index without members is compared by size and number of samples.
///
/// Failures: kCorruptData, naming the shard, where the index says something else than the shard;
/// those of `scan_shard_file`.
Result<formats::ShardScan> scan_by_index(const std::string& path, const ForeignShard& foreign,
                                         const formats::LabelSource& labels);

}  // namespace feedrace::exchange
