// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/batch_slot.h"

#include <utility>

namespace feedrace {
namespace {

// Cache lines, AVX-512 registers, and what JAX wants before it takes memory without a copy.
constexpr std::size_t kTensorAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

}  // namespace

SlotShape::SlotShape(const Pipeline& pipeline, std::size_t batch)
    : batch_size(batch),
      image_bytes(std::size_t{3} * pipeline.output_size().width_px *
                  pipeline.output_size().height_px * size_of(pipeline.dtype)),
      labels_at(aligned(batch * image_bytes)),
      indices_at(labels_at + aligned(batch * sizeof(std::int64_t))),
      flags_at(indices_at + aligned(batch * sizeof(std::uint64_t))),
      total_bytes(flags_at + aligned(batch * sizeof(SampleFlag))) {}

namespace pipeline {

std::shared_ptr<SlotPool> SlotPool::create(const SlotShape& shape, std::size_t planned,
                                           std::size_t limit) {
  return std::shared_ptr<SlotPool>(new SlotPool(shape, planned, limit));
}

SlotPool::SlotPool(const SlotShape& shape, std::size_t planned, std::size_t limit)
    : shape_(shape), planned_(planned), limit_(limit), total_(planned) {
  for (std::size_t i = 0; i < planned; ++i) free_.push_back(std::make_unique<BatchSlot>(shape));
}

std::shared_ptr<BatchSlot> SlotPool::try_acquire() {
  std::unique_ptr<BatchSlot> slot;
  {
    std::lock_guard lock(mutex_);
    if (!free_.empty()) {
      slot = std::move(free_.front());
      free_.pop_front();
    } else if (total_ < limit_) {
      ++total_;
      if (total_ > planned_) ++extra_;
    } else {
      return nullptr;
    }
  }
  if (!slot) {
    try {
      slot = std::make_unique<BatchSlot>(shape_);
    } catch (...) {
      std::lock_guard lock(mutex_);
      --total_;
      throw;
    }
  }
  return {slot.release(), [pool = shared_from_this()](BatchSlot* returned) {
            pool->give_back(std::unique_ptr<BatchSlot>(returned));
          }};
}

std::shared_ptr<BatchSlot> SlotPool::acquire(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    if (auto slot = try_acquire()) return slot;
    std::unique_lock lock(mutex_);
    starving_ = true;
    returned_.wait(lock, stop, [&] { return !free_.empty() || total_ < limit_; });
    starving_ = false;
  }
  return nullptr;
}

bool SlotPool::is_starving() const {
  std::lock_guard lock(mutex_);
  return starving_;
}

std::size_t SlotPool::out_count() const {
  std::lock_guard lock(mutex_);
  return total_ - free_.size();
}

std::uint64_t SlotPool::extra_count() const {
  std::lock_guard lock(mutex_);
  return extra_;
}

void SlotPool::give_back(std::unique_ptr<BatchSlot> slot) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (total_ > planned_) {
      --total_;  // An extra one: its memory goes back to the system, outside the lock.
    } else {
      free_.push_back(std::move(slot));
    }
  }
  returned_.notify_all();
}

}  // namespace pipeline
}  // namespace feedrace
