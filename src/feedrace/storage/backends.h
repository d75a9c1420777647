// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "feedrace/backend.h"
#include "feedrace/storage/access.h"

namespace feedrace::storage {

/// What moves the bytes.
enum class Engine : std::uint8_t {
  kUring,    ///< io_uring: one thread, many reads in flight.
  kThreads,  ///< preadv2 on a few threads.
};

struct BackendOptions {
  static constexpr std::size_t kMaxQueueDepth = 4096;
  std::size_t queue_depth = 32;  ///< Reads in flight, 1 to `kMaxQueueDepth`.
  std::size_t thread_count = 0;  ///< Of `kThreads`; 0 means min(queue_depth, 8).
  Access access = Access::kPageCache;
  bool strict = false;  ///< See `AccessOptions`.
  std::shared_ptr<FallbackLog> log;
  // Of io_uring, see `RingOptions` and `UringOptions`.
  bool fixed_files = true;
  bool defer_taskrun = true;
  bool sqpoll = false;
  bool iopoll = false;
};

/// Throws Error kInvalidArgument unless it is from 1 to `BackendOptions::kMaxQueueDepth`.
void check_queue_depth(std::size_t queue_depth);

/// Failure: kUnsupported, with the reason and the remedy, where the kernel or its owner forbids
/// io_uring. Throws Error kInvalidArgument for a queue depth out of range, kIo when no thread
/// starts.
Result<std::unique_ptr<Backend>> create_backend(Engine engine, const BackendOptions& options = {});

/// One that always can be had, for a few reads that nobody waits for: through the page cache.
std::unique_ptr<Backend> simple_backend(std::size_t queue_depth = 1);

}  // namespace feedrace::storage
