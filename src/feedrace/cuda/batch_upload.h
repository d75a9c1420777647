// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
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
    /// for every stream that uses the batch, before it does.
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

    const std::shared_ptr<Device> device_;
    const DeviceMemory memory_;
    Event ready_;                                  // Behind the copies.
    std::vector<feedrace_cuda_stream> consumers_;  // That were handed the present batch.
    std::vector<std::unique_ptr<Event>> used_;     // Behind each consumer's work; some are spare.
    std::size_t used_count_ = 0;                   // Of `used_`, those of the last batch.
  };

  /// Slots of `slot_bytes` are made when they are needed: `planned` circulate, more are made while
  /// the consumer keeps batches, `limit` at most.
  static std::shared_ptr<BatchUpload> create(std::shared_ptr<Device> device,
                                             std::size_t slot_bytes, std::size_t planned,
                                             std::size_t limit);
  ~BatchUpload();
  BatchUpload(const BatchUpload&) = delete;
  BatchUpload& operator=(const BatchUpload&) = delete;

  /// Copies that run or wait for their turn: `upload` waits for the first of them before it begins
  /// another, so that no more than this many sources are kept.
  static constexpr std::size_t kCopiesInFlight = 2;

  /// Begins the copies of a batch; `keep` holds the sources, and is let go when they are done and
  /// somebody asks (`upload`, `collect`). Throws Error: kUnsupported when the device is out of
  /// memory for the first slot or lost; kInvalidArgument when the consumer holds all of `limit`.
  std::shared_ptr<Slot> upload(std::span<const Piece> pieces, std::shared_ptr<const void> keep);
  /// A slot that others fill, on streams that `wait_for_last` and have come to their ends when
  /// `complete` is called. Throws as `upload`.
  std::shared_ptr<Slot> take();
  /// Begins the copies that are left of a batch in a slot of `take`; as `upload`.
  void complete(Slot& slot, std::span<const Piece> pieces, std::shared_ptr<const void> keep);
  /// Lets go of the sources of copies that are done.
  void collect();
  /// Waits until no source is read any more, and lets go of all.
  void finish();

  std::size_t slot_count() const;
  std::size_t limit() const noexcept { return limit_; }
  std::uint64_t copied_bytes() const;
  /// Pins memory that batches are copied from for as long as the result lives.
  std::shared_ptr<const void> pin(std::span<std::byte> memory) const;

 private:
  struct Copying {
    std::shared_ptr<const void> keep;
    std::unique_ptr<Event> done;
  };

  BatchUpload(std::shared_ptr<Device> device, std::size_t slot_bytes, std::size_t planned,
              std::size_t limit);
  void make_room();
  std::unique_ptr<Slot> take_slot();
  void begin(Slot& slot, std::span<const Piece> pieces);
  std::unique_ptr<Event> spare_event();
  void give_back(std::unique_ptr<Slot> slot) noexcept;

  const std::shared_ptr<Device> device_;
  const std::size_t slot_bytes_;
  const std::size_t planned_;
  const std::size_t limit_;
  mutable std::mutex mutex_;
  Stream stream_;                            // Its calls are guarded by mutex_.
  std::deque<std::unique_ptr<Slot>> free_;   // Guarded by mutex_. The longest unused first.
  std::size_t made_ = 0;                     // Guarded by mutex_. Free and out.
  std::deque<Copying> copying_;              // Guarded by mutex_. In the order of the stream.
  std::vector<std::unique_ptr<Event>> spare_;  // Guarded by mutex_.
  std::uint64_t copied_bytes_ = 0;           // Guarded by mutex_.
};

}  // namespace feedrace::cuda
