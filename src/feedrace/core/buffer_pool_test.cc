// SPDX-License-Identifier: Apache-2.0
#include "feedrace/core/buffer_pool.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace feedrace {
namespace {

bool is_page_aligned(const void* address) {
  return reinterpret_cast<std::uintptr_t>(address) % HostMemory::kPageBytes == 0;
}

TEST(HostMemory, IsPageAlignedZeroedAndRoundedUp) {
  const HostMemory memory(5000);
  EXPECT_EQ(memory.size_bytes(), 8192U);
  EXPECT_TRUE(is_page_aligned(memory.data()));
  EXPECT_TRUE(std::ranges::all_of(memory.bytes(), [](auto b) { return b == std::byte{0}; }));
}

TEST(HostMemory, OfNothingIsEmpty) {
  EXPECT_EQ(HostMemory(0).size_bytes(), 0U);
  EXPECT_EQ(HostMemory().data(), nullptr);
}

TEST(HostMemory, MovesWithItsBytes) {
  HostMemory first(4096);
  first.data()[7] = std::byte{42};
  HostMemory second = std::move(first);
  HostMemory third;
  third = std::move(second);
  EXPECT_EQ(third.data()[7], std::byte{42});
}

TEST(HostMemory, ThrowsWhenThereIsNotThatMuch) {
  EXPECT_THROW(HostMemory(~std::size_t{0}), std::bad_alloc);
  EXPECT_THROW(HostMemory(std::size_t{1} << 60), std::bad_alloc);
}

TEST(BufferPool, LendsDistinctPageAlignedBuffersInItsMemory) {
  const auto pool = BufferPool::create(5, 5000);
  EXPECT_EQ(pool->buffer_bytes(), 8192U);
  EXPECT_EQ(pool->memory().size_bytes(), 5 * 8192U);
  std::vector<BufferPool::Lease> leases;
  std::set<std::byte*> addresses;
  for (int i = 0; i < 5; ++i) {
    leases.push_back(pool->try_acquire());
    const auto bytes = leases.back().bytes();
    ASSERT_EQ(bytes.size(), 8192U);
    EXPECT_TRUE(is_page_aligned(bytes.data()));
    EXPECT_GE(bytes.data(), pool->memory().data());
    EXPECT_LE(bytes.data() + bytes.size(), pool->memory().data() + pool->memory().size_bytes());
    EXPECT_EQ((bytes.data() - pool->memory().data()) % 8192, 0);
    addresses.insert(bytes.data());
  }
  EXPECT_EQ(addresses.size(), 5U);
  EXPECT_EQ(pool->free_count(), 0U);
  EXPECT_FALSE(pool->try_acquire());
}

TEST(BufferPool, ALeaseReturnsItsBufferWhenDestroyedReleasedOrReplaced) {
  const auto pool = BufferPool::create(3, 4096);
  {
    const auto lease = pool->try_acquire();
  }
  EXPECT_EQ(pool->free_count(), 3U);
  auto lease = pool->try_acquire();
  lease.release();
  EXPECT_FALSE(lease);
  EXPECT_TRUE(lease.bytes().empty());
  EXPECT_EQ(pool->free_count(), 3U);
  lease.release();  // Nothing more to give.
  EXPECT_EQ(pool->free_count(), 3U);
  lease = pool->try_acquire();
  lease = pool->try_acquire();
  EXPECT_EQ(pool->free_count(), 2U);
}

TEST(BufferPool, AMovedLeaseReturnsItsBufferOnce) {
  const auto pool = BufferPool::create(2, 4096);
  auto first = pool->try_acquire();
  std::byte* const address = first.bytes().data();
  auto second = std::move(first);
  EXPECT_EQ(second.bytes().data(), address);
  EXPECT_EQ(pool->free_count(), 1U);
  second.release();
  EXPECT_EQ(pool->free_count(), 2U);
}

TEST(BufferPool, TheLastBufferReturnedIsTheNextOneLent) {
  const auto pool = BufferPool::create(4, 4096);
  auto one = pool->try_acquire();
  auto two = pool->try_acquire();
  std::byte* const address = one.bytes().data();
  one.release();
  EXPECT_EQ(pool->try_acquire().bytes().data(), address);
}

TEST(BufferPool, ALeaseKeepsItsPoolAlive) {
  auto pool = BufferPool::create(1, 4096);
  const std::weak_ptr<BufferPool> watch = pool;
  auto lease = pool->try_acquire();
  pool.reset();
  lease.bytes()[0] = std::byte{1};
  EXPECT_FALSE(watch.expired());
  lease.release();
  EXPECT_TRUE(watch.expired());
}

TEST(BufferPool, AcquireWaitsUntilABufferIsReturned) {
  const auto pool = BufferPool::create(1, 4096);
  auto held = pool->try_acquire();
  std::atomic<bool> released = false;
  bool order_was_right = false;
  std::thread waiter([&] {
    const auto lease = pool->acquire({});
    order_was_right = lease && released;
  });
  released = true;
  held.release();
  waiter.join();
  EXPECT_TRUE(order_was_right);
}

TEST(BufferPool, AStopRequestEndsEveryWait) {
  const auto pool = BufferPool::create(1, 4096, 4096);
  const auto buffer = pool->try_acquire();
  const auto oversized = pool->oversized(4096, {});
  std::stop_source stop;
  std::atomic<int> empty = 0;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&, i] {
      const auto lease =
          i % 2 == 0 ? pool->acquire(stop.get_token()) : pool->oversized(4096, stop.get_token());
      if (!lease) ++empty;
    });
  }
  stop.request_stop();
  for (auto& waiter : waiters) waiter.join();
  EXPECT_EQ(empty, 4);
  EXPECT_FALSE(pool->acquire(stop.get_token()));
}

TEST(BufferPool, AnOversizedLeaseHasMemoryOfItsOwn) {
  const auto pool = BufferPool::create(1, 4096);
  auto lease = pool->oversized(100'000, {});
  ASSERT_TRUE(lease);
  EXPECT_GE(lease.bytes().size(), 100'000U);
  EXPECT_EQ(pool->free_count(), 1U);
  lease.bytes().back() = std::byte{9};
  auto moved = std::move(lease);
  EXPECT_EQ(moved.bytes().back(), std::byte{9});
  moved.release();
  EXPECT_EQ(pool->free_count(), 1U);
}

TEST(BufferPool, OversizedLeasesWaitForEachOtherAtTheLimit) {
  const auto pool = BufferPool::create(1, 4096, 16'384);
  auto first = pool->oversized(8192, {});
  auto second = pool->oversized(8192, {});  // Fits exactly.
  ASSERT_TRUE(second);
  std::atomic<bool> released = false;
  bool order_was_right = false;
  std::thread waiter([&] {
    const auto third = pool->oversized(4096, {});
    order_was_right = third && released;
  });
  released = true;
  first.release();
  waiter.join();
  EXPECT_TRUE(order_was_right);
}

TEST(BufferPool, AnOversizedLeaseAboveTheLimitIsGivenWhenItIsAlone) {
  const auto pool = BufferPool::create(1, 4096, 4096);
  const auto lease = pool->oversized(1'000'000, {});
  EXPECT_TRUE(lease);
}

TEST(BufferPool, GivesNoBufferToTwoThreadsAtATime) {
  constexpr int kThreads = 4;
  const auto pool = BufferPool::create(3, 4096);
  std::atomic<int> clashes = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        const auto lease = pool->acquire({});
        const auto mark = static_cast<std::byte>(t + 1);
        std::ranges::fill(lease.bytes().first(64), mark);
        const auto is_mine = [&](std::byte b) { return b == mark; };
        if (!std::ranges::all_of(lease.bytes().first(64), is_mine)) ++clashes;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(clashes, 0);
  EXPECT_EQ(pool->free_count(), 3U);
}

TEST(Extent, ReturnsItsBufferWhenTheLastSampleLetsGo) {
  const auto pool = BufferPool::create(1, 4096);
  Extent first = std::make_shared<const BufferPool::Lease>(pool->try_acquire());
  Extent second = first;
  first.reset();
  EXPECT_EQ(pool->free_count(), 0U);
  second.reset();
  EXPECT_EQ(pool->free_count(), 1U);
}

TEST(BufferPool, LendsMemoryOfAnother) {
  auto owner = std::make_shared<HostMemory>(4 * HostMemory::kPageBytes);
  const std::weak_ptr<HostMemory> watched = owner;
  const std::span<std::byte> memory = owner->bytes();
  BufferPool::Lease lease;
  {
    const auto pool = BufferPool::create_in(memory, std::move(owner), 2 * HostMemory::kPageBytes);
    EXPECT_EQ(pool->free_count(), 2U);
    EXPECT_EQ(pool->memory().data(), memory.data());
    lease = pool->try_acquire();
    EXPECT_EQ(lease.bytes().data(), memory.data());
    EXPECT_EQ(lease.bytes().size(), 2 * HostMemory::kPageBytes);
  }
  EXPECT_FALSE(watched.expired());
  lease.release();
  EXPECT_TRUE(watched.expired());
}

}  // namespace
}  // namespace feedrace
