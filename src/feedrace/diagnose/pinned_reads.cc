// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/diagnose/backend_reads.h"
#include "feedrace/diagnose/device_reads.h"
#include "feedrace/diagnose/device_slots.h"
#include "feedrace/diagnose/read_threads.h"
#include "feedrace/storage/clock.h"

namespace feedrace::diagnose {
namespace {

using storage::Backend;
using storage::Completion;
using storage::File;
using storage::ReadRequest;

/// A slot is free, then being read into, then being copied from. There are twice as many as reads
/// in flight, so that copies never keep a read from starting unless they are the slower of the two.
class PinnedReads final : public ReadPath {
 public:
  PinnedReads(std::unique_ptr<Backend> backend, const std::shared_ptr<cuda::Device>& device,
              const IoJob& job)
      : job_(job),
        memory_(2 * job.queue_depth * job.block_bytes),
        pinned_(device, memory_.data(), memory_.size_bytes()),
        slots_(device, job, 2 * job.queue_depth),
        start_ns_(slots_.count()),
        completions_(job.queue_depth),
        stream_(device),
        backend_(std::move(backend)) {
    for (std::size_t i = 0; i < slots_.count(); ++i) {
      copied_.push_back(std::make_unique<cuda::Event>(device));
    }
  }

  Result<void> open_files() {
    // Where it can't be registered with the kernel too, reads take the same path.
    [[maybe_unused]] const auto registered = backend_->register_memory(memory_.bytes());
    auto opened = open_files_of(job_, *backend_);
    if (!opened) return opened.error();
    files_ = *std::move(opened);
    return {};
  }

  Result<void> check(const BlockOrder& order, std::uint64_t count) override {
    const auto compare = [&](std::size_t slot) { return slots_.compare(slot); };
    const auto done = run(order, {kNoEndSeconds, count}, compare);
    return done ? Result<void>() : done.error();
  }

  Result<ReadCounts> read(const BlockOrder& order, const RunLimits& limits) override {
    return run(order, limits, [](std::size_t) { return Result<void>(); });
  }

  Result<void> check_what_is_left() override {
    return caught([&] { return slots_.compare_all(); });
  }

 private:
  static constexpr double kNoEndSeconds = 1e9;
  /// Gets the slots whose blocks are on the device.
  using Arrived = std::function<Result<void>(std::size_t slot)>;

  Result<ReadCounts> run(const BlockOrder& order, const RunLimits& limits, const Arrived& arrived) {
    return caught([&] { return run_to_end(order, limits, arrived); });
  }

  Result<ReadCounts> run_to_end(const BlockOrder& order, const RunLimits& limits,
                                const Arrived& arrived) {
    const std::uint64_t calls_before = backend_->system_calls();
    const std::uint64_t end_ns =
        storage::now_ns() + static_cast<std::uint64_t>(limits.seconds * 1e9);
    counts_ = {};
    failure_.reset();
    free_.clear();
    for (std::size_t slot = 0; slot < slots_.count(); ++slot) free_.push_back(slot);
    std::uint64_t next = 0;
    while (true) {
      const bool goes_on = !failure_ && (next == 0 || storage::now_ns() < end_ns);
      if (!goes_on) drop_ready();
      while (goes_on && next < limits.block_count && has_room()) aim(order.at(next++));
      if (ready_.empty() && reading_ == 0 && copying_.empty()) break;
      submit();
      take_reads();
      take_copies(arrived);
    }
    if (failure_) return *failure_;
    counts_.system_calls = backend_->system_calls() - calls_before;
    return counts_;
  }

  bool has_room() const { return !free_.empty() && ready_.size() + reading_ < job_.queue_depth; }

  void aim(const Block& block) {
    const std::size_t slot = free_.front();
    free_.pop_front();
    slots_.hold(slot, block);
    start_ns_[slot] = storage::now_ns();
    ready_.push_back({files_[block.file].get(), nullptr, block.offset_bytes, bytes_of(slot), slot});
  }

  /// What was not submitted when the time was over.
  void drop_ready() {
    for (const ReadRequest& request : ready_) free_.push_back(request.user_data);
    ready_.clear();
  }

  void submit() {
    const std::size_t taken = backend_->submit(ready_);
    ready_.erase(ready_.begin(), ready_.begin() + static_cast<std::ptrdiff_t>(taken));
    reading_ += taken;
  }

  /// Waits for a read where there is one: copies that end meanwhile are seen behind it.
  void take_reads() {
    if (reading_ == 0) return;
    const std::size_t done = backend_->wait(completions_, 1);
    reading_ -= done;
    for (const Completion& completion : std::span(completions_).first(done)) {
      const auto slot = static_cast<std::size_t>(completion.user_data);
      if (completion.bytes_read && *completion.bytes_read == job_.block_bytes && !failure_) {
        begin_copy(slot, completion);
        continue;
      }
      if (!failure_) failure_ = failure_of(completion);
      free_.push_back(slot);
    }
  }

  void begin_copy(std::size_t slot, const Completion& completion) {
    counts_.copied_bytes += copies_of(completion.path) * job_.block_bytes;
    counts_.bytes_by_path[static_cast<std::size_t>(completion.path)] += job_.block_bytes;
    stream_.copy_to_device(slots_.address(slot), bytes_of(slot).data(), job_.block_bytes);
    copied_[slot]->record(stream_.handle());
    copying_.push_back(slot);
  }

  /// Those that are done; waits for one where no read is in flight.
  void take_copies(const Arrived& arrived) {
    while (!copying_.empty()) {
      const std::size_t slot = copying_.front();
      if (!copied_[slot]->is_done()) {
        if (reading_ > 0) return;
        copied_[slot]->wait();
      }
      copying_.pop_front();
      ++counts_.reads;
      counts_.bytes += job_.block_bytes;
      counts_.device_copied_bytes += job_.block_bytes;
      counts_.latency.record(storage::now_ns() - start_ns_[slot]);
      if (auto used = arrived(slot); !used && !failure_) failure_ = used.error();
      free_.push_back(slot);
    }
  }

  std::span<std::byte> bytes_of(std::size_t slot) const noexcept {
    return memory_.bytes().subspan(slot * job_.block_bytes, job_.block_bytes);
  }

  const IoJob job_;
  const HostMemory memory_;
  const cuda::PinnedRange pinned_;
  DeviceSlots slots_;
  std::vector<std::unique_ptr<cuda::Event>> copied_;  // One a slot.
  std::vector<std::uint64_t> start_ns_;               // One a slot.
  std::deque<std::size_t> free_;                      // Slots; the longest unused first.
  std::deque<std::size_t> copying_;                   // Slots, in the order of the stream.
  std::vector<ReadRequest> ready_;
  std::vector<Completion> completions_;
  std::size_t reading_ = 0;
  ReadCounts counts_;
  std::optional<Failure> failure_;
  std::vector<std::unique_ptr<File>> files_;
  cuda::Stream stream_;
  std::unique_ptr<Backend> backend_;  // Last: gone before what it reads from and into.
};

}  // namespace

Result<std::unique_ptr<ReadPath>> make_pinned_reads(std::unique_ptr<Backend> backend,
                                                    const DeviceTarget& target, const IoJob& job) {
  return caught([&]() -> Result<std::unique_ptr<ReadPath>> {
    auto reads = std::make_unique<PinnedReads>(std::move(backend), target.device, job);
    if (const auto opened = reads->open_files(); !opened) return opened.error();
    return std::unique_ptr<ReadPath>(std::move(reads));
  });
}

}  // namespace feedrace::diagnose
