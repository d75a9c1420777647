// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "feedrace/backend.h"

namespace feedrace::testing {

/// Latency of a read: uniform in [min_ns, max_ns], by its number since the back end was made.
struct Latency {
  std::uint64_t min_ns = 0;
  std::uint64_t max_ns = 0;
  std::uint64_t seed = 0;
};

/// Another back end behind a slow device: every read takes at least its latency, and completes in
/// the order in which the latencies end.
class SlowBackend final : public storage::Backend {
 public:
  SlowBackend(std::unique_ptr<storage::Backend> inner, const Latency& latency);

  std::string_view name() const noexcept override { return "slow"; }
  Limits limits() const noexcept override { return inner_->limits(); }
  Result<void> register_memory(std::span<std::byte> memory) override;
  Result<std::unique_ptr<storage::File>> open(std::string_view uri) override;
  std::size_t submit(std::span<const storage::ReadRequest> requests) noexcept override;
  std::size_t wait(std::span<storage::Completion> out, std::size_t min_count) noexcept override;
  void cancel_all() noexcept override;
  void interrupt() noexcept override;

 private:
  struct Held {
    std::uint64_t user_data = 0;
    std::uint64_t start_ns = 0;
    std::uint64_t due_ns = 0;
    storage::Completion completion;
  };

  void collect(std::size_t min_count) noexcept;
  std::size_t due_count(std::uint64_t now) const noexcept;
  void sleep_until_due() noexcept;
  bool interrupted() noexcept;

  std::unique_ptr<storage::Backend> inner_;
  const Latency latency_;
  std::uint64_t submitted_ = 0;
  std::vector<Held> slots_;  // By the inner back end's user_data.
  std::vector<std::size_t> free_;
  std::vector<std::size_t> held_;  // Done, by due_ns.
  std::vector<storage::Completion> collected_;
  std::size_t inside_ = 0;  // In flight in `inner_`.
  std::mutex mutex_;
  std::condition_variable woken_;
  bool interrupted_ = false;  // Guarded by mutex_.
};

}  // namespace feedrace::testing
