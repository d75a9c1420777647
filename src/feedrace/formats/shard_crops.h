// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/formats/crop_columns.h"
#include "feedrace/formats/shard_scan.h"

namespace feedrace::formats {

/// Reads all images of a shard and adds their crop indexes to its scan. Failures: kNotFound, kIo,
/// kCorruptData (the shard became shorter).
Result<void> add_crop_indexes(const std::string& path, const std::vector<std::string>& image_fields,
                              std::size_t thread_count, CropCounter& counter, ShardScan& scan);

}  // namespace feedrace::formats
