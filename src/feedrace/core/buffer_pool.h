// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <stop_token>
#include <utility>
#include <vector>

namespace feedrace {

/// Page-aligned memory straight from the kernel, with transparent huge pages asked for: pinning
/// them costs a twentieth of pinning small pages. Zeroed; not touched until used.
class HostMemory {
 public:
  static constexpr std::size_t kPageBytes = 4096;

  HostMemory() = default;
  /// Throws std::bad_alloc. `bytes` is rounded up to whole pages; 0 gives empty memory.
  explicit HostMemory(std::size_t bytes);
  HostMemory(HostMemory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HostMemory& operator=(HostMemory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HostMemory();

  std::byte* data() const noexcept { return data_; }
  std::size_t size_bytes() const noexcept { return bytes_; }
  std::span<std::byte> bytes() const noexcept { return {data_, bytes_}; }
  /// Makes the kernel back every page now, so that no reader pays for the first touch.
  void touch() const noexcept;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

/// Makes the kernel back every page of `memory` now; what it holds stays. O_DIRECT into pages that
/// nobody has touched is turned into reads through the page cache by some file systems (btrfs).
void populate(std::span<std::byte> memory) noexcept;

/// A fixed number of equal, page-aligned buffers in one allocation, lent out one lease at a time.
///
/// One allocation, because a back end registers it once (io_uring fixed buffers, cuFile, pinned
/// memory). The pool never grows: a full pool is the back-pressure that bounds the loader's memory.
/// What does not fit a buffer gets memory of its own by `oversized()`, which counts as well.
///
/// Thread-safe. A lease keeps its pool alive, so either may be dropped first.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  /// A buffer on loan. Moves like `unique_ptr`; its destructor returns the buffer.
  class Lease {
   public:
    Lease() = default;
    Lease(Lease&& other) noexcept { swap(other); }
    Lease& operator=(Lease&& other) noexcept {
      Lease(std::move(other)).swap(*this);
      return *this;
    }
    ~Lease() { release(); }

    explicit operator bool() const noexcept { return pool_ != nullptr; }
    std::span<std::byte> bytes() const noexcept { return bytes_; }
    /// Returns the buffer now.
    void release() noexcept;

   private:
    friend class BufferPool;
    static constexpr std::size_t kOwnMemory = ~std::size_t{0};

    void swap(Lease& other) noexcept {
      pool_.swap(other.pool_);
      std::swap(index_, other.index_);
      std::swap(bytes_, other.bytes_);
      std::swap(own_, other.own_);
    }

    std::shared_ptr<BufferPool> pool_;
    std::size_t index_ = kOwnMemory;
    std::span<std::byte> bytes_;
    HostMemory own_;  // Of an oversized lease.
  };

  /// Throws std::bad_alloc. `buffer_bytes` is rounded up to whole pages. `oversized_limit_bytes`
  /// bounds what `oversized()` may have out at a time.
  static std::shared_ptr<BufferPool> create(std::size_t count, std::size_t buffer_bytes,
                                            std::uint64_t oversized_limit_bytes = ~std::uint64_t{
                                                0});

  /// The same in memory of another's, such as a device's, which `owner` keeps: of whole buffers.
  /// What `oversized()` gives is the host's all the same.
  static std::shared_ptr<BufferPool> create_in(std::span<std::byte> memory,
                                               std::shared_ptr<const void> owner,
                                               std::size_t buffer_bytes);

  /// Waits for a free buffer. Returns an empty lease once `stop` is requested.
  Lease acquire(const std::stop_token& stop);
  /// Never waits. Returns an empty lease if no buffer is free.
  Lease try_acquire();
  /// Memory of its own for `bytes`; waits while the limit is reached, but gives one that alone is
  /// above it only if nothing else is out (progress before the limit). Returns an empty lease once
  /// `stop` is requested. Throws std::bad_alloc.
  Lease oversized(std::size_t bytes, const std::stop_token& stop);
  /// The same without waiting: an empty lease while the limit is reached.
  Lease try_oversized(std::size_t bytes);

  std::size_t free_count() const;
  std::size_t buffer_bytes() const noexcept { return buffer_bytes_; }
  /// Where all buffers lie, for registration.
  std::span<std::byte> memory() const noexcept { return memory_; }

 private:
  BufferPool(std::span<std::byte> memory, std::shared_ptr<const void> owner,
             std::size_t buffer_bytes, std::uint64_t oversized_limit_bytes);
  void give_back(Lease& lease) noexcept;
  Lease take_locked();
  bool oversized_fits_locked(std::size_t bytes) const noexcept;
  Lease take_oversized_locked(std::size_t bytes);

  const std::size_t buffer_bytes_;
  const std::uint64_t oversized_limit_bytes_;
  const std::shared_ptr<const void> owner_;
  const std::span<std::byte> memory_;
  mutable std::mutex mutex_;
  std::condition_variable_any freed_;
  std::vector<std::size_t> free_;      // Guarded by mutex_. Last in, first out: the warmest first.
  std::uint64_t oversized_bytes_ = 0;  // Guarded by mutex_. Out at the moment.
};

/// Bytes that several samples share: one read served them all. The buffer returns to its pool when
/// the last one lets go.
using Extent = std::shared_ptr<const BufferPool::Lease>;

}  // namespace feedrace
