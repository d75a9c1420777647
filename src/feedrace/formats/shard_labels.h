// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "feedrace/format.h"
#include "feedrace/formats/index_meta.h"
#include "feedrace/formats/shard_set.h"

namespace feedrace::formats {

/// True when a sample with an image has a label, be it one that is no whole number.
bool has_labels(const IndexMeta& meta) noexcept;

/// `Dataset::label_source()` of shards.
std::string describe_label_source(const IndexMeta& meta, const OpenOptions& options);

/// Checks that a label source that the options name gives at least one sample of a set with images
/// its label; otherwise training would run on -1 without a word. Throws Error kInvalidArgument,
/// which says what is there instead.
void require_named_labels(const ShardSet& set, const OpenOptions& options);

}  // namespace feedrace::formats
