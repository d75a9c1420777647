// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"

namespace feedrace {

/// Memory of what differs in size from sample to sample, of all slots of a loader together: images,
/// or what a device gets of them, encoded or as pixels. Thread-safe.
class RaggedMemory {
 public:
  explicit RaggedMemory(std::uint64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  /// False, and nothing added, when the limit would be passed.
  bool try_add(std::uint64_t bytes) noexcept {
    const std::uint64_t used_bytes = used_bytes_ += bytes;
    if (used_bytes <= limit_bytes_) return true;
    used_bytes_ -= bytes;
    return false;
  }
  /// Throws Error kInvalidArgument when the limit would be passed.
  void add(std::uint64_t bytes) {
    if (try_add(bytes)) return;
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("pictures of different sizes need more than the {} that the memory limit "
                    "leaves; use a smaller batch_size or prefetch_factor, bound the size of "
                    "pictures, or raise memory_limit",
                    human_bytes(limit_bytes_)));
  }
  void remove(std::uint64_t bytes) noexcept { used_bytes_ -= bytes; }

 private:
  const std::uint64_t limit_bytes_;
  std::atomic<std::uint64_t> used_bytes_ = 0;
};

}  // namespace feedrace
