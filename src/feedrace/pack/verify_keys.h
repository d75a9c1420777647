// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "feedrace/format.h"
#include "feedrace/pack/shard_unit.h"
#include "feedrace/pack/verification.h"
#include "feedrace/verify.h"

namespace feedrace::pack {

/// Lists the samples of the units that the gathering names for it that have no label. Throws Error
/// kIo of the list.
void list_unlabelled(const ShardSources& sources, const VerifyOptions& options,
                     Gathering& gathering);

/// Finds keys that come more than once: equal hashes are looked up, and keys and pictures compared
/// byte for byte. A sample that is there twice is bad; different ones may share a key, as each
/// shard is read for itself. Throws Error kIo.
void find_twins(const ShardSources& sources, const VerifyOptions& options, std::size_t thread_count,
                Gathering& gathering);

/// The same for files: names that would be one key in shards.
void find_twins(const formats::Dataset& set, Gathering& gathering);

}  // namespace feedrace::pack
