// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "feedrace/cuda/plugin_loader.h"

namespace feedrace::cuda {

/// What is copied of one batch: a stretch of the host's memory, and where it goes in the slot.
struct Piece {
  const void* source = nullptr;
  std::size_t bytes = 0;
  std::size_t at_bytes = 0;  ///< From the begin of the slot.
};

/// Brings batches to a device: a ring of slots there, each filled by copies that nobody waits for.
///
/// A slot goes through these states, ordered by events alone: the copies, on a stream of our own,
/// begin when the consumer's work on the slot's last batch is done; the consumer's stream goes on
/// behind the copies. In steady state no call waits for the device, and none allocates.
///
/// Thread-safe. Slots keep the ring alive, so that a batch may outlive its loader.
class BatchUpload : public std::enable_shared_from_this<BatchUpload> {
 public:
  /// A batch on the device. The last owner's end gives the slot back: what the consumer's stream
  /// has been given until then may still read it, what comes later must not.
  class Slot {
   public:
    std::uint64_t address() const noexcept { return memory_.address(); }
    /// Makes a stream of the consumer's go on behind the copies; 0 is the default stream. Call it
    /// for every stream that uses the batch, before it does. Thread-safe.
    void hand_over(feedrace_cuda_stream consumer);
    /// Waits until the batch is on the device: for consumers without streams.
    void wait() const { ready_.wait(); }
    /// Copies from the slot to the host, and waits: for looks at a batch, not for every one.
    void read(std::size_t at_bytes, std::span<std::byte> destination) const;

    /// Makes a stream that fills the slot begin behind the consumer's work on its last batch.
    void wait_for_last(Stream& stream) const;

   private:
    friend class BatchUpload;
    Slot(const std::shared_ptr<Device>& device, std::size_t bytes)
        : device_(device), memory_(device, bytes), ready_(device) {}
    void grow(std::size_t bytes);

    const std::shared_ptr<Device> device_;
    DeviceMemory memory_;
    Event ready_;  // Behind the copies.
    std::mutex consumers_mutex_;
    // Guarded by consumers_mutex_. That were handed the present batch.
    std::vector<feedrace_cuda_stream> consumers_;
    std::vector<std::unique_ptr<Event>> used_;  // Behind each consumer's work; some are spare.
    std::size_t used_count_ = 0;                // Of `used_`, those of the last batch.
  };

  /// Slots are made when they are needed: `planned` circulate, more are made while the consumer
  /// keeps batches, `limit` at most, and no more than the device has memory for.
  static std::shared_ptr<BatchUpload> create(std::shared_ptr<Device> device, std::size_t planned,
                                             std::size_t limit);
  ~BatchUpload();
  BatchUpload(const BatchUpload&) = delete;
  BatchUpload& operator=(const BatchUpload&) = delete;

  /// Copies that run or wait for their turn: `fill` waits for the first of them before it begins
  /// another, so that no more than this many sources are kept.
  static constexpr std::size_t kCopiesInFlight = 2;

  /// A slot of at least `bytes`. Waits while there is no other and none may be made; null once
  /// `stop` is requested. Throws Error: DeviceMemoryError when there is no memory for even one,
  /// kUnsupported when the device is lost.
  std::shared_ptr<Slot> acquire(std::size_t bytes, const std::stop_token& stop);
  /// The same without a wait: null when there is none.
  std::shared_ptr<Slot> try_acquire(std::size_t bytes);
  /// Makes `count` slots of `bytes` now, before others take the memory. Throws as `acquire`.
  void reserve(std::size_t bytes, std::size_t count);
  /// What puts work of its own on the stream that fills a slot; none of it waits.
  using Produce = std::function<void(Stream&)>;
  /// Begins to fill a slot, or to complete one that others have filled on streams that did
  /// `Slot::wait_for_last` and have come to their ends: by `produce`, then by copies of `pieces`;
  /// nobody waits for either, but for those of the batch before the last. `keep` holds what they
  /// work with, and is let go when they are done and somebody asks (`fill`, `finish`). Throws
  /// Error when the device is lost.
  void fill(Slot& slot, std::span<const Piece> pieces, std::shared_ptr<const void> keep,
            const Produce& produce = {});
  /// Waits until fewer than `count` batches are being copied.
  void wait_for_room(std::size_t count);
  /// Waits until no source is read any more, and lets go of all.
  void finish();

  std::size_t slot_count() const;
  /// Less than was given where the device has no memory for more; then `shrunk` says so.
  std::size_t limit() const;
  std::string shrunk() const;
  /// True while `acquire` waits for the consumer.
  bool is_starving() const;
  std::uint64_t copied_bytes() const;
  /// Pins memory that batches are copied from for as long as the result lives.
  std::shared_ptr<const void> pin(std::span<std::byte> memory) const;

 private:
  struct Copying {
    std::shared_ptr<const void> keep;
    std::unique_ptr<Event> done;
  };

  BatchUpload(std::shared_ptr<Device> device, std::size_t planned, std::size_t limit);
  std::unique_ptr<Slot> take_slot(std::size_t bytes, const std::stop_token* stop);
  std::shared_ptr<Slot> lend(std::unique_ptr<Slot> slot);
  std::unique_ptr<Slot> make_slot(std::unique_ptr<Slot> slot, std::size_t bytes);
  void begin(Slot& slot, std::span<const Piece> pieces, const Produce& produce);
  void collect();
  void wait_for(const Copying& copying);
  void drain() noexcept;
  std::unique_ptr<Event> spare_event();
  void give_back(std::unique_ptr<Slot> slot) noexcept;

  const std::shared_ptr<Device> device_;
  const std::size_t planned_;
  mutable std::mutex mutex_;
  std::condition_variable_any returned_;
  std::size_t limit_;                          // Guarded by mutex_.
  std::string shrunk_;                         // Guarded by mutex_.
  bool is_starving_ = false;                   // Guarded by mutex_.
  std::unique_ptr<Stream> stream_;             // Its calls are guarded by mutex_.
  std::deque<std::unique_ptr<Slot>> free_;     // Guarded by mutex_. The longest unused first.
  std::size_t made_ = 0;                       // Guarded by mutex_. Free and out.
  std::deque<Copying> copying_;                // Guarded by mutex_. In the order of the stream.
  std::vector<std::unique_ptr<Event>> spare_;  // Guarded by mutex_.
  std::uint64_t copied_bytes_ = 0;             // Guarded by mutex_.
};

}  // namespace feedrace::cuda
