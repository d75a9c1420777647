// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <vector>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/pipeline.h"
#include "feedrace/pipeline/device_input.h"
#include "feedrace/pipeline/pinned_arena.h"
#include "feedrace/pipeline/ragged_memory.h"
#include "feedrace/tensor.h"

namespace feedrace {

/// Size of one batch's memory: images, then labels, indices and flags, each 64-byte aligned. Images
/// that differ in size lie outside, each by itself.
struct SlotShape {
  /// Of raw samples, dtype and shape are known.
  /// `images_elsewhere`: the slot holds none; `image_bytes` says all the same how large one is.
  SlotShape(const Pipeline& pipeline, std::size_t batch_size, bool images_elsewhere = false);

  std::size_t batch_size;
  std::size_t element_bytes;  ///< Of an image's number.
  ops::ImageSize image_size;  ///< 0 x 0 when images differ in size, are raw, or there are none.
  bool is_ragged;             ///< Images differ in size.
  std::size_t image_bytes;    ///< Of one image, by `image_size`, or of a raw sample.
  std::size_t labels_at;
  std::size_t indices_at;
  std::size_t flags_at;
  std::size_t total_bytes;
};

/// The memory of one batch. Decode threads write places of it side by side, each place once; after
/// the last one it is the consumer's.
class BatchSlot {
 public:
  BatchSlot(const SlotShape& shape, std::shared_ptr<RaggedMemory> ragged,
            const PinMemory& pin = {});
  ~BatchSlot();
  BatchSlot(const BatchSlot&) = delete;
  BatchSlot& operator=(const BatchSlot&) = delete;

  /// Where the image goes, when all have one size.
  std::byte* image(std::size_t index) noexcept {
    return memory_.data() + index * shape_.image_bytes;
  }
  /// Room for an image of this size. Throws Error when images differ in size and the memory limit
  /// is reached. Called by the thread that fills the place.
  std::byte* make_image(std::size_t index, ops::ImageSize size);
  /// Of `make_image`, when images differ in size.
  ops::ImageSize image_size(std::size_t index) const noexcept { return ragged_images_[index].size; }
  std::byte* ragged_image(std::size_t index) noexcept {
    return ragged_images_[index].memory.data();
  }
  std::int64_t* labels() noexcept { return at<std::int64_t>(shape_.labels_at); }
  std::uint64_t* indices() noexcept { return at<std::uint64_t>(shape_.indices_at); }
  SampleFlag* flags() noexcept { return at<SampleFlag>(shape_.flags_at); }
  const SlotShape& shape() const noexcept { return shape_; }
  /// Pictures that come to a device before the pass; they count as images that differ in size do.
  DeviceInput& device_input() noexcept { return device_input_; }

 private:
  template <typename T>
  T* at(std::size_t offset) noexcept {
    return reinterpret_cast<T*>(memory_.data() + offset);
  }

  struct RaggedImage {
    HostMemory memory;                   // Kept from batch to batch; grows only.
    std::shared_ptr<const void> pinned;  // Behind it, so that it goes before.
    ops::ImageSize size;
  };

  const SlotShape shape_;
  HostMemory memory_;
  const std::shared_ptr<const void> pinned_;  // Behind the memory, so that it goes before.
  const PinMemory pin_;
  const std::shared_ptr<RaggedMemory> ragged_;
  std::vector<RaggedImage> ragged_images_;
  DeviceInput device_input_;
};

namespace pipeline {

/// Lends batch slots. `planned` slots circulate, the longest unused first, so that the memory in
/// use is what the plan says, no more and no less; when all are out because the consumer keeps
/// batches, more are made up to `limit`, counted, and freed again on return.
///
/// Thread-safe. A slot keeps its pool alive, so that a batch may outlive its loader.
class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  /// `ragged_limit_bytes` bounds the images that differ in size, of all slots.
  static std::shared_ptr<SlotPool> create(const SlotShape& shape, std::size_t planned,
                                          std::size_t limit,
                                          std::uint64_t ragged_limit_bytes = ~std::uint64_t{0},
                                          PinMemory pin = {});

  /// Never waits; nothing when the limit is out.
  std::shared_ptr<BatchSlot> try_acquire();
  /// Waits for a slot; nothing once `stop` is requested.
  std::shared_ptr<BatchSlot> acquire(const std::stop_token& stop);

  /// Gives the memory of all slots that are not out back to the system; they are made anew when
  /// they are needed.
  void release_free();
  /// True while `acquire()` waits because the limit is out.
  bool is_starving() const;
  std::size_t out_count() const;
  std::uint64_t extra_count() const;
  std::size_t limit() const noexcept { return limit_; }
  const SlotShape& shape() const noexcept { return shape_; }

 private:
  SlotPool(const SlotShape& shape, std::size_t planned, std::size_t limit,
           std::uint64_t ragged_limit_bytes, PinMemory pin);
  void give_back(std::unique_ptr<BatchSlot> slot) noexcept;

  const SlotShape shape_;
  const std::size_t planned_;
  const std::size_t limit_;
  const std::shared_ptr<RaggedMemory> ragged_;
  const PinMemory pin_;
  mutable std::mutex mutex_;
  std::condition_variable_any returned_;
  std::deque<std::unique_ptr<BatchSlot>> free_;  // Guarded by mutex_.
  std::size_t total_ = 0;                        // Guarded by mutex_. Free and out.
  std::uint64_t extra_ = 0;                      // Guarded by mutex_. Ever made above `planned_`.
  bool starving_ = false;                        // Guarded by mutex_.
};

}  // namespace pipeline
}  // namespace feedrace
