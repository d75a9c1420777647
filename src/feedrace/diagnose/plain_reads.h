// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "feedrace/diagnose/io_run.h"
#include "feedrace/error.h"

namespace feedrace::diagnose {

/// What programs without a loader do, for comparison.
enum class PlainRead : std::uint8_t {
  kReadAndCopy,  ///< pread into a buffer of the reader, then memcpy to where the bytes belong.
  kMapped,       ///< memcpy out of a memory-mapped file.
};

/// On `job.thread_count` threads of its own, each with its share of `job.queue_depth` destinations.
/// A file that shrinks while it is mapped ends the process with SIGBUS, as in any program that
/// maps. Failures: those of open and mmap.
Result<std::unique_ptr<ReadPath>> make_plain_reads(PlainRead how, const IoJob& job);

}  // namespace feedrace::diagnose
