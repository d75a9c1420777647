// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/pipeline.h"
#include "feedrace/tensor.h"

namespace feedrace {

/// Size of one batch's memory: images, then labels, indices and flags, each 64-byte aligned.
struct SlotShape {
  SlotShape(const Pipeline& pipeline, std::size_t batch_size);

  std::size_t batch_size;
  std::size_t image_bytes;  ///< Of one image.
  std::size_t labels_at;
  std::size_t indices_at;
  std::size_t flags_at;
  std::size_t total_bytes;
};

/// The memory of one batch. Decode threads write places of it side by side, each place once; after
/// the last one it is the consumer's.
class BatchSlot {
 public:
  explicit BatchSlot(const SlotShape& shape) : shape_(shape), memory_(shape.total_bytes) {}

  std::byte* image(std::size_t index) noexcept {
    return memory_.data() + index * shape_.image_bytes;
  }
  std::int64_t* labels() noexcept { return at<std::int64_t>(shape_.labels_at); }
  std::uint64_t* indices() noexcept { return at<std::uint64_t>(shape_.indices_at); }
  SampleFlag* flags() noexcept { return at<SampleFlag>(shape_.flags_at); }
  const SlotShape& shape() const noexcept { return shape_; }

 private:
  template <typename T>
  T* at(std::size_t offset) noexcept {
    return reinterpret_cast<T*>(memory_.data() + offset);
  }

  const SlotShape shape_;
  HostMemory memory_;
};

namespace pipeline {

/// Lends batch slots. `planned` slots circulate, the longest unused first, so that the memory in
/// use is what the plan says, no more and no less; when all are out because the consumer keeps
/// batches, more are made up to `limit`, counted, and freed again on return.
///
/// Thread-safe. A slot keeps its pool alive, so that a batch may outlive its loader.
class SlotPool : public std::enable_shared_from_this<SlotPool> {
 public:
  static std::shared_ptr<SlotPool> create(const SlotShape& shape, std::size_t planned,
                                          std::size_t limit);

  /// Never waits; nothing when the limit is out.
  std::shared_ptr<BatchSlot> try_acquire();
  /// Waits for a slot; nothing once `stop` is requested.
  std::shared_ptr<BatchSlot> acquire(const std::stop_token& stop);

  /// True while `acquire()` waits because the limit is out.
  bool is_starving() const;
  std::size_t out_count() const;
  std::uint64_t extra_count() const;
  std::size_t limit() const noexcept { return limit_; }
  const SlotShape& shape() const noexcept { return shape_; }

 private:
  SlotPool(const SlotShape& shape, std::size_t planned, std::size_t limit);
  void give_back(std::unique_ptr<BatchSlot> slot) noexcept;

  const SlotShape shape_;
  const std::size_t planned_;
  const std::size_t limit_;
  mutable std::mutex mutex_;
  std::condition_variable_any returned_;
  std::deque<std::unique_ptr<BatchSlot>> free_;  // Guarded by mutex_.
  std::size_t total_ = 0;                        // Guarded by mutex_. Free and out.
  std::uint64_t extra_ = 0;                      // Guarded by mutex_. Ever made above `planned_`.
  bool starving_ = false;                        // Guarded by mutex_.
};

}  // namespace pipeline
}  // namespace feedrace
