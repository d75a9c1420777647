// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "feedrace/backend.h"
#include "feedrace/diagnose/io_run.h"
#include "feedrace/error.h"

namespace feedrace::diagnose {

/// The job's files, for reads of its blocks. Failures: those of `open`; kUnsupported where blocks
/// are not aligned as a file wants it.
Result<std::vector<std::unique_ptr<storage::File>>> open_files_of(const IoJob& job,
                                                                  storage::Backend& backend);

/// Of a read that did not give a whole block.
Failure failure_of(const storage::Completion& completion);

/// Keeps `job.queue_depth` reads of `backend` in flight, into one piece of memory that is
/// `registered` with it or not. Failures: those of `register_memory` and `open`; kUnsupported where
/// blocks are not aligned as the files want it.
Result<std::unique_ptr<ReadPath>> make_backend_reads(std::unique_ptr<storage::Backend> backend,
                                                     const IoJob& job, bool registered);

}  // namespace feedrace::diagnose
