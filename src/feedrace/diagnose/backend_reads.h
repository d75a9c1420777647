// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "feedrace/backend.h"
#include "feedrace/diagnose/io_run.h"
#include "feedrace/error.h"

namespace feedrace::diagnose {

/// Keeps `job.queue_depth` reads of `backend` in flight, into one piece of memory that is
/// `registered` with it or not. Failures: those of `register_memory` and `open`; kUnsupported where
/// blocks are not aligned as the files want it.
Result<std::unique_ptr<ReadPath>> make_backend_reads(std::unique_ptr<storage::Backend> backend,
                                                     const IoJob& job, bool registered);

}  // namespace feedrace::diagnose
