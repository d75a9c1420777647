// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "feedrace/backend.h"
#include "feedrace/storage/access.h"
#include "feedrace/storage/read_threads.h"

namespace feedrace::storage {

/// Blocking reads on a few threads of its own: "direct" with O_DIRECT, else "buffered". Works
/// wherever Linux does: the fallback of every other back end, and the reference that they are
/// compared with.
class ThreadBackend final : public Backend {
 public:
  static constexpr std::size_t kMaxDefaultThreads = ReadThreads::kMaxDefaultThreads;

  /// `thread_count` 0 means min(queue_depth, 8). `queue_depth` is at least 1. Throws Error kIo when
  /// no thread can be started.
  explicit ThreadBackend(std::size_t queue_depth, std::size_t thread_count = 0,
                         AccessOptions access = {});

  std::string_view name() const noexcept override {
    return table_.wanted() == Access::kDirect ? "direct" : "buffered";
  }
  Limits limits() const noexcept override;
  Result<void> register_memory(std::span<std::byte> memory) override;
  Result<std::unique_ptr<File>> open(std::string_view uri) override;
  std::size_t submit(std::span<const ReadRequest> requests) noexcept override {
    return threads_.submit(requests);
  }
  std::size_t wait(std::span<Completion> out, std::size_t min_count) noexcept override {
    return threads_.wait(out, min_count);
  }
  void cancel_all() noexcept override { threads_.cancel_all(); }
  void interrupt() noexcept override { threads_.interrupt(); }
  std::uint64_t system_calls() const noexcept override { return system_calls_; }

 private:
  Completion read(const ReadRequest& request, const StopSign& stop) noexcept;

  AccessTable table_;
  std::atomic<std::uint64_t> system_calls_{0};
  ReadThreads threads_;  // Last: they use all of the others.
};

}  // namespace feedrace::storage
