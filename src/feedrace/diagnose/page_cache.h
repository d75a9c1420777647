// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "feedrace/diagnose/io_job.h"
#include "feedrace/error.h"

namespace feedrace::diagnose {

/// Pages of the job's files that lie in the page cache, of 4,096 bytes. Failure: kUnsupported where
/// the kernel does not tell (before 6.5, another user's file, overlay), with the reason.
Result<std::uint64_t> cached_pages(const IoJob& job);

/// Makes the next reads come from the device. Failure: kIo; kUnsupported where pages stay: the file
/// lies in memory, or somebody holds them.
Result<void> drop_pages(const IoJob& job);

/// Makes the next reads find all blocks in the page cache. Failure: kIo; kUnsupported where the
/// free memory is too small for them.
Result<void> fill_pages(const IoJob& job);

}  // namespace feedrace::diagnose
