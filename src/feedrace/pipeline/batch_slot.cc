// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/batch_slot.h"

#include <utility>

#include "feedrace/transform/raw_sample.h"

namespace feedrace {
namespace {

// Cache lines, AVX-512 registers, and what JAX wants before it takes memory without a copy.
constexpr std::size_t kTensorAlignment = 64;

std::size_t aligned(std::size_t bytes) {
  return (bytes + kTensorAlignment - 1) / kTensorAlignment * kTensorAlignment;
}

std::size_t element_bytes_of(const Pipeline& pipeline) {
  return size_of(pipeline.raw ? *pipeline.raw->dtype : pipeline.dtype);
}

std::size_t image_bytes_of(ops::ImageSize size, std::size_t element_bytes) {
  return std::size_t{3} * size.width_px * size.height_px * element_bytes;
}

}  // namespace

SlotShape::SlotShape(const Pipeline& pipeline, std::size_t batch, bool images_elsewhere)
    : batch_size(batch),
      element_bytes(element_bytes_of(pipeline)),
      image_size(pipeline.output_size().value_or(ops::ImageSize{})),
      is_ragged(!pipeline.reads_only && !pipeline.raw && image_size.width_px == 0),
      image_bytes(pipeline.raw ? transform::raw_bytes(*pipeline.raw)
                               : image_bytes_of(image_size, element_bytes)),
      labels_at(images_elsewhere ? 0 : aligned(batch * image_bytes)),
      indices_at(labels_at + aligned(batch * sizeof(std::int64_t))),
      flags_at(indices_at + aligned(batch * sizeof(std::uint64_t))),
      total_bytes(flags_at + aligned(batch * sizeof(SampleFlag))) {}

BatchSlot::BatchSlot(const SlotShape& shape, std::shared_ptr<RaggedMemory> ragged,
                     const PinMemory& pin)
    : shape_(shape),
      memory_(shape.total_bytes),
      pinned_(pin ? pin(memory_.bytes()) : nullptr),
      pin_(pin),
      ragged_(std::move(ragged)),
      ragged_images_(shape.is_ragged ? shape.batch_size : 0),
      device_input_(ragged_, pin) {}

BatchSlot::~BatchSlot() {
  for (const RaggedImage& image : ragged_images_) ragged_->remove(image.memory.size_bytes());
}

std::byte* BatchSlot::make_image(std::size_t index, ops::ImageSize size) {
  if (!shape_.is_ragged) return image(index);
  RaggedImage& image = ragged_images_[index];
  const std::size_t bytes = image_bytes_of(size, shape_.element_bytes);
  if (bytes > image.memory.size_bytes()) {
    // The old memory goes first, so that both never count at once.
    ragged_->remove(image.memory.size_bytes());
    image.pinned.reset();
    image.memory = HostMemory();
    HostMemory memory(bytes);
    ragged_->add(memory.size_bytes());
    image.memory = std::move(memory);
    if (pin_) image.pinned = pin_(image.memory.bytes());
  }
  image.size = size;
  return image.memory.data();
}

namespace pipeline {

std::shared_ptr<SlotPool> SlotPool::create(const SlotShape& shape, std::size_t planned,
                                           std::size_t limit, std::uint64_t ragged_limit_bytes,
                                           PinMemory pin) {
  return std::shared_ptr<SlotPool>(
      new SlotPool(shape, planned, limit, ragged_limit_bytes, std::move(pin)));
}

SlotPool::SlotPool(const SlotShape& shape, std::size_t planned, std::size_t limit,
                   std::uint64_t ragged_limit_bytes, PinMemory pin)
    : shape_(shape),
      planned_(planned),
      limit_(limit),
      ragged_(std::make_shared<RaggedMemory>(ragged_limit_bytes)),
      pin_(std::move(pin)) {}

void SlotPool::release_free() {
  std::deque<std::unique_ptr<BatchSlot>> released;
  std::lock_guard lock(mutex_);
  total_ -= free_.size();
  released.swap(free_);
}

std::shared_ptr<BatchSlot> SlotPool::try_acquire() {
  std::unique_ptr<BatchSlot> slot;
  {
    std::lock_guard lock(mutex_);
    // All that are planned are made before one is used again: see the class.
    if (total_ >= planned_ && !free_.empty()) {
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
      slot = std::make_unique<BatchSlot>(shape_, ragged_, pin_);
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
