// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "feedrace/backend.h"
#include "feedrace/storage/fixed_queue.h"

namespace feedrace::testing {

/// What goes wrong, and how often. Shares are of [0, 1] and add up to 1 at most.
struct FaultPlan {
  std::uint64_t seed = 0;
  double error_share = 0;  ///< The read fails with EIO.
  double short_share = 0;  ///< The file seems to end halfway through the read.
  double late_share = 0;   ///< Right, but only after reads that were submitted later.
  /// Reads that stay in flight until `cancel_all()`.
  std::function<bool(const storage::ReadRequest&)> hangs;
};

enum class Fault : std::uint8_t { kNone, kError, kShort, kLate };

/// Another back end on a failing device. The fault of a read depends on the plan, the file's name
/// (without its folder) and the offset alone: the same data are bad in every run, in every copy of
/// them, and at any number of threads.
class FaultyBackend final : public storage::Backend {
 public:
  FaultyBackend(std::unique_ptr<storage::Backend> inner, FaultPlan plan);

  /// The fault of reads of the file `name`, of which the part after the last '/' counts, at
  /// `offset_bytes`.
  static Fault fault_of(const FaultPlan& plan, std::string_view name,
                        std::uint64_t offset_bytes) noexcept;
  /// Reads that failed, were cut, or came late. Thread-safe.
  std::uint64_t fault_count() const noexcept { return fault_count_; }
  /// Reads that hang at the moment. Thread-safe.
  std::size_t hanging_count() const noexcept { return hanging_count_; }

  std::string_view name() const noexcept override { return "faulty"; }
  Limits limits() const noexcept override { return inner_->limits(); }
  Result<void> register_memory(std::span<std::byte> memory) override;
  Result<std::unique_ptr<storage::File>> open(std::string_view uri) override;
  std::size_t submit(std::span<const storage::ReadRequest> requests) noexcept override;
  std::size_t wait(std::span<storage::Completion> out, std::size_t min_count) noexcept override;
  void cancel_all() noexcept override;
  void interrupt() noexcept override;

 private:
  bool take(storage::ReadRequest request) noexcept;
  bool pass_on(storage::ReadRequest request, bool is_late) noexcept;
  void collect(std::size_t min_count) noexcept;
  void await_more() noexcept;
  bool interrupted() noexcept;
  std::size_t in_flight() const noexcept;

  std::unique_ptr<storage::Backend> inner_;
  const FaultPlan plan_;
  const std::size_t depth_;
  std::size_t inside_ = 0;                  // In flight in `inner_`.
  std::vector<std::uint64_t> late_inside_;  // user_data of those that will be late.
  std::vector<storage::Completion> late_;   // Done, held back.
  std::vector<storage::ReadRequest> hanging_;
  std::vector<storage::Completion> collected_;
  storage::FixedQueue<storage::Completion> ready_;
  std::atomic<std::uint64_t> fault_count_{0};
  std::atomic<std::size_t> hanging_count_{0};
  std::mutex mutex_;
  std::condition_variable woken_;
  bool interrupted_ = false;  // Guarded by mutex_.
};

}  // namespace feedrace::testing
