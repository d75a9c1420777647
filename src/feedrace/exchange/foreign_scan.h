// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "feedrace/error.h"
#include "feedrace/exchange/foreign_index.h"
#include "feedrace/formats/shard_scan.h"

namespace feedrace::exchange {

struct ForeignScan {
  formats::ShardScan scan;
  /// All headers of the shard were read: the index says too little, or knows less than is needed to
  /// be sure that nothing lies between its members.
  bool has_read_headers = false;
};

/// One shard as if its headers had been read, from what another loader's index says of it.
///
/// Headers are left unread only where the members lie so close that no other fits between them, the
/// samples are whole and in order, the index is not older than the shard, and zeros follow the last
/// member. Then those of the members with labels, which are read for their labels anyway, and of up
/// to 64 others are compared. Everywhere else all headers are read, and compared with the index.
///
/// Failures: kCorruptData, naming shard and index, where the index says something else than the
/// shard; those of `scan_shard_file`.
Result<ForeignScan> scan_by_index(const std::string& path, const ForeignShard& foreign,
                                  const formats::LabelSource& labels);

}  // namespace feedrace::exchange
