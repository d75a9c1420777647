// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/backend.h"

namespace feedrace::storage {

struct BackendOptions {
  static constexpr std::size_t kMaxQueueDepth = 4096;
  std::size_t queue_depth = 32;  ///< Reads in flight, 1 to 4096.
  std::size_t thread_count = 0;  ///< Of "buffered"; 0 means min(queue_depth, 8).
};

/// A back end and why it is this one.
struct BackendChoice {
  std::unique_ptr<Backend> backend;
  std::string name;          ///< Of `backend`.
  std::string reason;        ///< One sentence for the plan.
  bool is_fallback = false;  ///< Not the one that was wanted; `reason` says why and what to do.
};

/// "uring", "buffered": the names that `make_backend` takes, besides "auto".
std::vector<std::string_view> backend_names();

/// "auto" is uring where it can be set up, else buffered. "uring" where it can't be had gives
/// buffered as well, marked as a fallback: the caller decides whether to refuse it. Throws Error
/// kInvalidArgument for another name or a queue depth out of range, kIo when no thread starts.
BackendChoice make_backend(std::string_view name, const BackendOptions& options = {});

}  // namespace feedrace::storage
