// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

#include "feedrace/diagnose/io_run.h"
#include "feedrace/error.h"

namespace feedrace::diagnose {

/// Reads a block on a thread, blocking; adds its copies and system calls to the counts. May throw
/// Error.
using ReadBlock =
    std::function<Result<void>(std::size_t thread, const Block& block, ReadCounts& counts)>;

/// Calls `read` on `thread_count` threads of its own, one block after the other: thread t has the
/// positions t, t + thread_count and so on. Reads, bytes and latencies are counted here. Failure:
/// the first thread's that had one.
Result<ReadCounts> read_on_threads(std::size_t thread_count, std::size_t block_bytes,
                                   const BlockOrder& order, const RunLimits& limits,
                                   const ReadBlock& read);

/// What `call` gives, or the Error that it throws as a Failure.
template <typename Call>
auto caught(const Call& call) -> decltype(call()) {
  try {
    return call();
  } catch (const Error& error) {
    return Failure{error.code(), error.what()};
  }
}

}  // namespace feedrace::diagnose
