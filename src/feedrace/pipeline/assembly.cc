// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/assembly.h"

#include <algorithm>
#include <utility>

namespace feedrace::pipeline {

std::optional<Assembly::Opened> Assembly::find_locked(std::uint64_t serial) const {
  if (serial < first_serial_) return Opened{Opened::Status::kTaken, nullptr};
  if (serial - first_serial_ >= pending_.size()) return std::nullopt;
  return Opened{Opened::Status::kOpen, pending_[static_cast<std::size_t>(serial - first_serial_)]};
}

/// Another reader may have opened it meanwhile: then the slot goes back.
Assembly::Opened Assembly::admit(std::uint64_t serial,
                                 const std::shared_ptr<const order::EpochOrder>& order,
                                 std::uint64_t number, std::shared_ptr<BatchSlot> slot) {
  auto batch = std::make_shared<PendingBatch>();
  batch->order = order;
  batch->number = number;
  batch->size = static_cast<std::size_t>(order->batch_size(number));
  batch->slot = std::move(slot);
  if (take_on_device_) batch->on_device = take_on_device_();
  for (const std::string& name : fields_) batch->fields.push_back({name, {}});
  for (FieldColumn& field : batch->fields) field.values.resize(batch->size);
  batch->remaining = batch->size;
  batch->slot->device_input().begin(batch->size);
  {
    std::lock_guard lock(mutex_);
    if (const auto found = find_locked(serial)) return *found;
    pending_.push_back(batch);
  }
  changed_.notify_all();
  return {Opened::Status::kOpen, std::move(batch)};
}

Assembly::Opened Assembly::try_open(std::uint64_t serial,
                                    const std::shared_ptr<const order::EpochOrder>& order,
                                    std::uint64_t number) {
  {
    std::lock_guard lock(mutex_);
    if (const auto found = find_locked(serial)) return *found;
    if (pending_.size() >= window_) {
      wants_room_ = true;
      return {};
    }
  }
  auto slot = slots_->try_acquire();
  return slot ? admit(serial, order, number, std::move(slot)) : Opened{};
}

Assembly::Opened Assembly::open(std::uint64_t serial,
                                const std::shared_ptr<const order::EpochOrder>& order,
                                std::uint64_t number, const std::stop_token& stop) {
  {
    std::unique_lock lock(mutex_);
    // One reader at a time waits for a slot; the others want the batch, not a slot of their own.
    const auto is_ready = [&] {
      return find_locked(serial) || (pending_.size() < window_ && !is_opening_);
    };
    if (!changed_.wait(lock, stop, is_ready)) return {};
    if (const auto found = find_locked(serial)) return *found;
    is_opening_ = true;
  }
  auto slot = slots_->acquire(stop);
  Opened opened = slot ? admit(serial, order, number, std::move(slot)) : Opened{};
  {
    std::lock_guard lock(mutex_);
    is_opening_ = false;
  }
  changed_.notify_all();
  return opened;
}

std::uint64_t Assembly::opened_count() const {
  std::lock_guard lock(mutex_);
  return first_serial_ + pending_.size();
}

void Assembly::await_opened(std::uint64_t serial, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop, [&] { return first_serial_ + pending_.size() > serial; });
}

void Assembly::finish_place(PendingBatch& batch) {
  if (batch.remaining.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // The lock orders this with a consumer that has just looked and is about to wait.
  {
    std::lock_guard lock(mutex_);
  }
  changed_.notify_all();
}

Assembly::Taken Assembly::take(const std::stop_token& stop,
                               std::chrono::steady_clock::time_point deadline) {
  const auto is_full = [&] {
    return !pending_.empty() && pending_.front()->remaining.load(std::memory_order_acquire) == 0;
  };
  Taken taken;
  bool is_wanted = false;
  {
    std::unique_lock lock(mutex_);
    const bool full = changed_.wait_until(lock, stop, deadline, is_full);
    if (!full) {
      taken.status = stop.stop_requested() ? TakeStatus::kStopped : TakeStatus::kTimedOut;
      return taken;
    }
    taken.status = TakeStatus::kTaken;
    taken.batch = std::move(pending_.front());
    pending_.pop_front();
    ++first_serial_;
    is_wanted = std::exchange(wants_room_, false);
  }
  changed_.notify_all();  // There is room in the window.
  if (is_wanted && tell_room_) tell_room_();
  return taken;
}

std::size_t Assembly::pending_count() const {
  std::lock_guard lock(mutex_);
  return pending_.size();
}

std::size_t Assembly::ready_count() const {
  std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      pending_.begin(), pending_.end(),
      [](const auto& batch) { return batch->remaining.load(std::memory_order_acquire) == 0; }));
}

}  // namespace feedrace::pipeline
