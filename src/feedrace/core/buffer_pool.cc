// SPDX-License-Identifier: Apache-2.0
#include "feedrace/core/buffer_pool.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>
#include <utility>

#include "feedrace/core/alignment.h"

namespace feedrace {

namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

std::byte* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

/// `bytes` that begin at a huge page: the kernel puts none across its borders.
std::byte* map_at_huge_page(std::size_t bytes) {
  std::byte* const memory = map(bytes + kHugePageBytes);
  const std::size_t behind = reinterpret_cast<std::uintptr_t>(memory) % kHugePageBytes;
  const std::size_t skipped = (kHugePageBytes - behind) % kHugePageBytes;
  if (skipped > 0) munmap(memory, skipped);
  munmap(memory + skipped + bytes, kHugePageBytes - skipped);
  // Advice: where huge pages are switched off the memory is as good, only slower to pin.
  madvise(memory + skipped, bytes, MADV_HUGEPAGE);
  return memory + skipped;
}

}  // namespace

HostMemory::HostMemory(std::size_t bytes) {
  if (bytes == 0) return;
  if (bytes > ~std::size_t{0} - kPageBytes - kHugePageBytes) throw std::bad_alloc();
  bytes_ = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  data_ = bytes_ >= kHugePageBytes ? map_at_huge_page(bytes_) : map(bytes_);
}

HostMemory::~HostMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

void HostMemory::touch() const noexcept {
  for (std::size_t at = 0; at < bytes_; at += kPageBytes) {
    *reinterpret_cast<volatile std::byte*>(data_ + at) = std::byte{0};
  }
}

void populate(std::span<std::byte> memory) noexcept {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14.
  if (memory.empty() || madvise(memory.data(), memory.size(), kPopulateWrite) == 0) return;
  for (std::size_t at = 0; at < memory.size(); at += HostMemory::kPageBytes) {
    auto* byte = reinterpret_cast<volatile std::byte*>(memory.data() + at);
    *byte = *byte;
  }
}

void BufferPool::Lease::release() noexcept {
  if (pool_) pool_->give_back(*this);
  pool_.reset();
  own_ = HostMemory();
  bytes_ = {};
}

std::shared_ptr<BufferPool> BufferPool::create(std::size_t count, std::size_t buffer_bytes,
                                               std::uint64_t oversized_limit_bytes) {
  const std::size_t paged_bytes = round_up(buffer_bytes, HostMemory::kPageBytes);
  auto memory = std::make_shared<const HostMemory>(count * paged_bytes);
  const std::span<std::byte> bytes = memory->bytes();
  return std::shared_ptr<BufferPool>(
      new BufferPool(bytes, std::move(memory), paged_bytes, oversized_limit_bytes));
}

std::shared_ptr<BufferPool> BufferPool::create_in(std::span<std::byte> memory,
                                                  std::shared_ptr<const void> owner,
                                                  std::size_t buffer_bytes) {
  return std::shared_ptr<BufferPool>(
      new BufferPool(memory, std::move(owner), buffer_bytes, ~std::uint64_t{0}));
}

BufferPool::BufferPool(std::span<std::byte> memory, std::shared_ptr<const void> owner,
                       std::size_t buffer_bytes, std::uint64_t oversized_limit_bytes)
    : buffer_bytes_(buffer_bytes),
      oversized_limit_bytes_(oversized_limit_bytes),
      owner_(std::move(owner)),
      memory_(memory) {
  const std::size_t count = buffer_bytes == 0 ? 0 : memory.size() / buffer_bytes;
  free_.reserve(count);
  for (std::size_t i = count; i > 0; --i) free_.push_back(i - 1);
}

BufferPool::Lease BufferPool::take_locked() {
  Lease lease;
  if (free_.empty()) return lease;
  lease.index_ = free_.back();
  free_.pop_back();
  lease.bytes_ = {memory_.data() + lease.index_ * buffer_bytes_, buffer_bytes_};
  lease.pool_ = shared_from_this();
  return lease;
}

BufferPool::Lease BufferPool::acquire(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, stop, [&] { return !free_.empty(); });
  if (stop.stop_requested()) return {};
  return take_locked();
}

BufferPool::Lease BufferPool::try_acquire() {
  std::lock_guard lock(mutex_);
  return take_locked();
}

bool BufferPool::oversized_fits_locked(std::size_t bytes) const noexcept {
  return oversized_bytes_ == 0 || oversized_bytes_ + bytes <= oversized_limit_bytes_;
}

BufferPool::Lease BufferPool::take_oversized_locked(std::size_t bytes) {
  Lease lease;
  lease.own_ = HostMemory(bytes);
  lease.bytes_ = lease.own_.bytes();
  lease.pool_ = shared_from_this();
  oversized_bytes_ += lease.bytes_.size();
  return lease;
}

BufferPool::Lease BufferPool::oversized(std::size_t bytes, const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  freed_.wait(lock, stop, [&] { return oversized_fits_locked(bytes); });
  if (stop.stop_requested()) return {};
  return take_oversized_locked(bytes);
}

BufferPool::Lease BufferPool::try_oversized(std::size_t bytes) {
  std::lock_guard lock(mutex_);
  return oversized_fits_locked(bytes) ? take_oversized_locked(bytes) : Lease();
}

std::size_t BufferPool::free_count() const {
  std::lock_guard lock(mutex_);
  return free_.size();
}

void BufferPool::give_back(Lease& lease) noexcept {
  {
    std::lock_guard lock(mutex_);
    if (lease.index_ == Lease::kOwnMemory) {
      oversized_bytes_ -= lease.bytes_.size();
    } else {
      free_.push_back(lease.index_);  // Never allocates: the constructor reserved for all.
    }
  }
  freed_.notify_all();
}

}  // namespace feedrace
