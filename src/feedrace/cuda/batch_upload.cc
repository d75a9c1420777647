// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/batch_upload.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace feedrace::cuda {

void BatchUpload::Slot::hand_over(feedrace_cuda_stream consumer) {
  feedrace_cuda_error error{};
  require(device_->table().make_stream_wait(device_->handle(), consumer, ready_.handle(), &error),
          error);
  const std::lock_guard lock(consumers_mutex_);
  if (std::find(consumers_.begin(), consumers_.end(), consumer) == consumers_.end()) {
    consumers_.push_back(consumer);
  }
}

void BatchUpload::Slot::wait_for_last(Stream& stream) const {
  for (std::size_t i = 0; i < used_count_; ++i) stream.wait(*used_[i]);
}

void BatchUpload::Slot::read(std::size_t at_bytes, std::span<std::byte> destination) const {
  Stream stream(device_);
  stream.wait(ready_);
  stream.copy_to_host(destination.data(), address() + at_bytes, destination.size());
  Event done(device_);
  done.record(stream.handle());
  done.wait();
}

/// What it held is of no use any more. Freeing waits for the device, and so for all that reads it.
void BatchUpload::Slot::grow(std::size_t bytes) {
  if (bytes <= memory_.size_bytes()) return;
  memory_ = DeviceMemory();
  memory_ = DeviceMemory(device_, bytes);
}

std::shared_ptr<BatchUpload> BatchUpload::create(std::shared_ptr<Device> device,
                                                 std::size_t planned, std::size_t limit) {
  return std::shared_ptr<BatchUpload>(new BatchUpload(std::move(device), planned, limit));
}

BatchUpload::BatchUpload(std::shared_ptr<Device> device, std::size_t planned, std::size_t limit)
    : device_(std::move(device)),
      planned_(planned),
      limit_(limit),
      stream_(std::make_unique<Stream>(device_)) {
  // All that there will ever be, so that none is made while batches go.
  for (std::size_t i = 0; i < kCopiesInFlight; ++i) {
    spare_.push_back(std::make_unique<Event>(device_));
  }
}

BatchUpload::~BatchUpload() {
  try {
    finish();
  } catch (...) {  // NOLINT(bugprone-empty-catch)
    // A lost device: nothing runs on it any more, and nobody is left to tell.
  }
}

std::shared_ptr<BatchUpload::Slot> BatchUpload::acquire(std::size_t bytes,
                                                        const std::stop_token& stop) {
  return lend(take_slot(bytes, &stop));
}

void BatchUpload::reserve(std::size_t bytes, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::unique_ptr<Slot> slot(new Slot(device_, bytes));
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(slot));
    ++made_;
  }
}

std::shared_ptr<BatchUpload::Slot> BatchUpload::try_acquire(std::size_t bytes) {
  return lend(take_slot(bytes, nullptr));
}

std::shared_ptr<BatchUpload::Slot> BatchUpload::lend(std::unique_ptr<Slot> slot) {
  if (!slot) return nullptr;
  return {slot.release(), [ring = shared_from_this()](Slot* returned) {
            ring->give_back(std::unique_ptr<Slot>(returned));
          }};
}

void BatchUpload::fill(Slot& slot, std::span<const Piece> pieces, std::shared_ptr<const void> keep,
                       const Produce& produce) {
  wait_for_room(kCopiesInFlight);
  const std::lock_guard lock(mutex_);
  if (!stream_) stream_ = std::make_unique<Stream>(device_);
  std::unique_ptr<Event> done = spare_event();
  try {
    begin(slot, pieces, produce);
    done->record(stream_->handle());
  } catch (...) {
    drain();
    spare_.push_back(std::move(done));
    throw;
  }
  copying_.push_back({std::move(keep), std::move(done)});
}

/// After a failure no event says when what was begun is done, and it reads its sources still. The
/// end of the stream does. What was copied before it is done as well then.
void BatchUpload::drain() noexcept {
  stream_.reset();
  copying_.clear();
}

void BatchUpload::wait_for_room(std::size_t count) {
  collect();
  while (true) {
    Copying first;
    {
      const std::lock_guard lock(mutex_);
      if (copying_.size() < count) return;
      first = std::move(copying_.front());
      copying_.pop_front();
    }
    wait_for(first);
    const std::lock_guard lock(mutex_);
    spare_.push_back(std::move(first.done));
  }
}

void BatchUpload::wait_for(const Copying& copying) {
  try {
    copying.done->wait();
  } catch (...) {
    const std::lock_guard lock(mutex_);
    drain();
    throw;
  }
}

void BatchUpload::begin(Slot& slot, std::span<const Piece> pieces, const Produce& produce) {
  slot.wait_for_last(*stream_);
  slot.used_count_ = 0;
  if (produce) produce(*stream_);
  for (const Piece& piece : pieces) {
    stream_->copy_to_device(slot.address() + piece.at_bytes, piece.source, piece.bytes);
    copied_bytes_ += piece.bytes;
  }
  slot.ready_.record(stream_->handle());
}

std::unique_ptr<Event> BatchUpload::spare_event() {
  if (spare_.empty()) return std::make_unique<Event>(device_);
  std::unique_ptr<Event> event = std::move(spare_.back());
  spare_.pop_back();
  return event;
}

std::unique_ptr<BatchUpload::Slot> BatchUpload::take_slot(std::size_t bytes,
                                                          const std::stop_token* stop) {
  while (stop == nullptr || !stop->stop_requested()) {
    std::unique_ptr<Slot> slot;
    {
      std::unique_lock lock(mutex_);
      const auto is_there = [&] { return !free_.empty() || made_ < limit_; };
      if (!is_there()) {
        if (stop == nullptr) return nullptr;
        is_starving_ = true;
        returned_.wait(lock, *stop, is_there);
        is_starving_ = false;
        continue;
      }
      // All that are planned are made before one is used again: the longer a slot rests, the surer
      // its last consumer is done with it.
      const bool is_made = made_ < limit_ && (free_.empty() || made_ < planned_);
      if (is_made) {
        ++made_;
      } else {
        slot = std::move(free_.front());
        free_.pop_front();
      }
    }
    slot = make_slot(std::move(slot), bytes);
    if (slot) return slot;
  }
  return nullptr;
}

/// Makes a slot, or one larger. Null where the device has no memory for it, but has other slots:
/// those have to do from now on.
std::unique_ptr<BatchUpload::Slot> BatchUpload::make_slot(std::unique_ptr<Slot> slot,
                                                          std::size_t bytes) {
  try {
    if (slot) {
      slot->grow(bytes);
    } else {
      slot = std::unique_ptr<Slot>(new Slot(device_, bytes));
    }
    return slot;
  } catch (const DeviceMemoryError& error) {
    slot.reset();
    const std::lock_guard lock(mutex_);
    --made_;
    if (made_ == 0) throw;
    limit_ = made_;
    shrunk_ = fmt::format("the GPU has memory for {} batches only, so less is ready ahead: {}",
                          made_, error.what());
    return nullptr;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    --made_;
    throw;
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
  }
  {
    const std::lock_guard lock(mutex_);
    if (slot) {
      free_.push_back(std::move(slot));
    } else {
      --made_;
    }
  }
  returned_.notify_all();
}

/// Lets go of the sources of copies that are done.
void BatchUpload::collect() {
  std::vector<std::shared_ptr<const void>> let_go;  // Their ends may take locks of their own.
  const std::lock_guard lock(mutex_);
  try {
    while (!copying_.empty() && copying_.front().done->is_done()) {
      let_go.push_back(std::move(copying_.front().keep));
      spare_.push_back(std::move(copying_.front().done));
      copying_.pop_front();
    }
  } catch (...) {
    drain();
    throw;
  }
}

void BatchUpload::finish() { wait_for_room(1); }

std::size_t BatchUpload::slot_count() const {
  const std::lock_guard lock(mutex_);
  return made_;
}

std::size_t BatchUpload::limit() const {
  const std::lock_guard lock(mutex_);
  return limit_;
}

std::string BatchUpload::shrunk() const {
  const std::lock_guard lock(mutex_);
  return shrunk_;
}

bool BatchUpload::is_starving() const {
  const std::lock_guard lock(mutex_);
  return is_starving_;
}

std::uint64_t BatchUpload::copied_bytes() const {
  const std::lock_guard lock(mutex_);
  return copied_bytes_;
}

std::shared_ptr<const void> BatchUpload::pin(std::span<std::byte> memory) const {
  return std::make_shared<PinnedRange>(device_, memory.data(), memory.size());
}

}  // namespace feedrace::cuda
