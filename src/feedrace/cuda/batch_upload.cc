// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/batch_upload.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::cuda {

void BatchUpload::Slot::hand_over(feedrace_cuda_stream consumer) {
  feedrace_cuda_error error{};
  require(device_->table().make_stream_wait(device_->handle(), consumer, ready_.handle(), &error),
          error);
  if (std::find(consumers_.begin(), consumers_.end(), consumer) == consumers_.end()) {
    consumers_.push_back(consumer);
  }
}

void BatchUpload::Slot::read(std::size_t at_bytes, std::span<std::byte> destination) const {
  Stream stream(device_);
  stream.wait(ready_);
  stream.copy_to_host(destination.data(), address() + at_bytes, destination.size());
  Event done(device_);
  done.record(stream.handle());
  done.wait();
}

std::shared_ptr<BatchUpload> BatchUpload::create(std::shared_ptr<Device> device,
                                                 std::size_t slot_bytes, std::size_t planned,
                                                 std::size_t limit) {
  return std::shared_ptr<BatchUpload>(
      new BatchUpload(std::move(device), slot_bytes, planned, limit));
}

BatchUpload::BatchUpload(std::shared_ptr<Device> device, std::size_t slot_bytes,
                         std::size_t planned, std::size_t limit)
    : device_(std::move(device)),
      slot_bytes_(slot_bytes),
      planned_(planned),
      limit_(limit),
      stream_(device_) {}

BatchUpload::~BatchUpload() {
  try {
    finish();
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // A lost device: nothing runs on it any more, and nobody is left to tell.
  }
}

std::shared_ptr<BatchUpload::Slot> BatchUpload::upload(std::span<const Piece> pieces,
                                                       std::shared_ptr<const void> keep) {
  make_room();
  // Before the lock: should this fail, the slot's way back takes it.
  const std::shared_ptr<Slot> held(take_slot().release(), [ring = shared_from_this()](Slot* slot) {
    ring->give_back(std::unique_ptr<Slot>(slot));
  });
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Event> done = spare_event();
  copying_.push_back({std::move(keep), std::move(done)});
  try {
    begin(*held, pieces);
  } catch (...) {
    // What was begun reads its sources still; `done` is recorded behind it where that can be.
    copying_.back().done->record(stream_.handle());
    throw;
  }
  copying_.back().done->record(stream_.handle());
  return held;
}

void BatchUpload::make_room() {
  collect();
  while (true) {
    Copying first;
    {
      const std::lock_guard lock(mutex_);
      if (copying_.size() < kCopiesInFlight) return;
      first = std::move(copying_.front());
      copying_.pop_front();
    }
    first.done->wait();
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(first.done));
  }
}

void BatchUpload::begin(Slot& slot, std::span<const Piece> pieces) {
  for (std::size_t i = 0; i < slot.used_count_; ++i) stream_.wait(*slot.used_[i]);
  slot.used_count_ = 0;
  for (const Piece& piece : pieces) {
    stream_.copy_to_device(slot.address() + piece.at_bytes, piece.source, piece.bytes);
    copied_bytes_ += piece.bytes;
  }
  slot.ready_.record(stream_.handle());
}

std::unique_ptr<Event> BatchUpload::spare_event() {
  if (spare_.empty()) return std::make_unique<Event>(device_);
  std::unique_ptr<Event> event = std::move(spare_.back());
  spare_.pop_back();
  return event;
}

std::unique_ptr<BatchUpload::Slot> BatchUpload::take_slot() {
  {
    const std::lock_guard lock(mutex_);
    // All that are planned are made before one is used again: the longer a slot rests, the surer
    // its last consumer is done with it.
    if (!free_.empty() && made_ >= planned_) {
      std::unique_ptr<Slot> slot = std::move(free_.front());
      free_.pop_front();
      return slot;
    }
    if (made_ >= limit_) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the caller holds {} batches of {} on the device, and that is the "
                              "limit; drop batches or raise memory_limit",
                              made_, human_bytes(slot_bytes_)));
    }
    ++made_;
  }
  try {
    return std::unique_ptr<Slot>(new Slot(device_, slot_bytes_));
  } catch (...) {
    const std::lock_guard lock(mutex_);
    --made_;
    if (free_.empty()) throw;
    // The device is full: those that there are have to do.
    std::unique_ptr<Slot> slot = std::move(free_.front());
    free_.pop_front();
    return slot;
  }
}

void BatchUpload::give_back(std::unique_ptr<Slot> slot) noexcept {
  try {
    for (const feedrace_cuda_stream consumer : slot->consumers_) {
      if (slot->used_count_ == slot->used_.size()) {
        slot->used_.push_back(std::make_unique<Event>(device_));
      }
      slot->used_[slot->used_count_++]->record(consumer);
    }
    slot->consumers_.clear();
  } catch (...) {
    // A stream of the consumer's that is gone, or a lost device: nothing says when its work ends,
    // so the memory is given back to the driver, which waits for the device.
    slot.reset();
    const std::lock_guard lock(mutex_);
    --made_;
    return;
  }
  const std::lock_guard lock(mutex_);
  free_.push_back(std::move(slot));
}

void BatchUpload::collect() {
  std::vector<std::shared_ptr<const void>> let_go;  // Their ends may take locks of their own.
  const std::lock_guard lock(mutex_);
  while (!copying_.empty() && copying_.front().done->is_done()) {
    let_go.push_back(std::move(copying_.front().keep));
    spare_.push_back(std::move(copying_.front().done));
    copying_.pop_front();
  }
}

void BatchUpload::finish() {
  std::deque<Copying> copying;
  {
    const std::lock_guard lock(mutex_);
    copying.swap(copying_);
  }
  for (const Copying& one : copying) one.done->wait();
}

std::size_t BatchUpload::slot_count() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

std::uint64_t BatchUpload::copied_bytes() const {
  const std::lock_guard lock(mutex_);
  return copied_bytes_;
}

std::shared_ptr<const void> BatchUpload::pin(std::span<std::byte> memory) const {
  return std::make_shared<PinnedRange>(device_, memory.data(), memory.size());
}

}  // namespace feedrace::cuda
