// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/backends.h"

#include <fmt/format.h>

#include "feedrace/storage/thread_backend.h"
#include "feedrace/storage/uring_backend.h"

namespace feedrace::storage {

void check_queue_depth(std::size_t queue_depth) {
  if (queue_depth >= 1 && queue_depth <= BackendOptions::kMaxQueueDepth) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("storage back end: a queue depth of {} is out of range; use 1 to {}",
                          queue_depth, BackendOptions::kMaxQueueDepth));
}

Result<std::unique_ptr<Backend>> create_backend(Engine engine, const BackendOptions& options) {
  check_queue_depth(options.queue_depth);
  const AccessOptions access{options.access, options.strict, options.log};
  if (engine == Engine::kThreads) {
    return std::unique_ptr<Backend>(
        std::make_unique<ThreadBackend>(options.queue_depth, options.thread_count, access));
  }
  if (const auto probe = probe_uring(); !probe) return probe.error();
  UringOptions uring;
  uring.queue_depth = options.queue_depth;
  uring.ring = {options.defer_taskrun, options.sqpoll, options.iopoll};
  uring.fixed_files = options.fixed_files;
  uring.access = access;
  auto made = UringBackend::create(uring);
  if (!made) return made.error();
  return std::unique_ptr<Backend>(*std::move(made));
}

std::unique_ptr<Backend> simple_backend(std::size_t queue_depth) {
  return std::make_unique<ThreadBackend>(queue_depth, 1);
}

}  // namespace feedrace::storage
