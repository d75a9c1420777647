// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/registry.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/core/text.h"
#include "feedrace/storage/buffered_backend.h"
#include "feedrace/storage/uring_backend.h"

namespace feedrace::storage {
namespace {

BackendChoice buffered(const BackendOptions& options, std::string reason, bool is_fallback) {
  return {std::make_unique<BufferedBackend>(options.queue_depth, options.thread_count), "buffered",
          std::move(reason), is_fallback};
}

BackendChoice uring(const BackendOptions& options, std::string reason) {
  const Result<void> probe = probe_uring();
  if (!probe) return buffered(options, "buffered instead of uring: " + probe.error().message, true);
  UringOptions uring_options;
  uring_options.queue_depth = options.queue_depth;
  auto made = UringBackend::create(uring_options);
  if (!made) return buffered(options, "buffered instead of uring: " + made.error().message, true);
  return {*std::move(made), "uring", std::move(reason), false};
}

void check(std::string_view name, const BackendOptions& options) {
  const auto names = backend_names();
  if (name != "auto" && std::find(names.begin(), names.end(), name) == names.end()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("storage back end: \"{}\" is not known; use auto, {}", printable(name),
                            fmt::join(names, " or ")));
  }
  if (options.queue_depth == 0 || options.queue_depth > BackendOptions::kMaxQueueDepth) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("storage back end: a queue depth of {} is out of range; use 1 to {}",
                            options.queue_depth, BackendOptions::kMaxQueueDepth));
  }
}

}  // namespace

std::vector<std::string_view> backend_names() { return {"uring", "buffered"}; }

BackendChoice make_backend(std::string_view name, const BackendOptions& options) {
  check(name, options);
  if (name == "buffered") return buffered(options, "buffered was asked for", false);
  if (name == "uring") return uring(options, "uring was asked for");
  return uring(options, "uring: io_uring is allowed, and takes the least CPU time a read");
}

}  // namespace feedrace::storage
