// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "feedrace/diagnose/io_job.h"

namespace feedrace::diagnose {

/// Of a folder no more than this many are read, the largest.
inline constexpr std::size_t kMaxFolderFiles = 64;

/// The whole blocks of `paths` up to `limit_bytes` in all, in the order in which they are given.
/// A path is a file, a block device, or a folder: then its files, those below it too, that hold at
/// least a block. Throws Error: kNotFound, kInvalidArgument (no file, too small for a block), kIo
/// (permission).
std::vector<IoFile> collect_files(const std::vector<std::string>& paths, std::size_t block_bytes,
                                  std::uint64_t limit_bytes);

}  // namespace feedrace::diagnose
