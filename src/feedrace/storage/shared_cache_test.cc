// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/shared_cache.h"

#include <sys/stat.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "feedrace/storage/shared_cache_file.h"
#include "feedrace/storage/shared_cache_lock.h"
#include "feedrace/storage/test_shared_cache.h"

namespace feedrace::storage {
namespace {

using State = SharedCache::State;

std::uint64_t address_of(const void* place) { return reinterpret_cast<std::uintptr_t>(place); }

TEST(SharedCache, AMissIsClaimedFilledAndThenAHitInPlace) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  SharedCache::Found found = cache->find_or_claim(key_number(1), 5000);
  ASSERT_EQ(found.state, State::kClaimed);
  EXPECT_TRUE(found.bytes.empty());
  const std::span<std::byte> memory = found.claim.memory();
  EXPECT_EQ(memory.size(), 8192U);  // Room for a direct read.
  EXPECT_EQ(address_of(memory.data()) % 4096, 0U);
  write_sample(memory.first(5000), 1);
  const std::span<const std::byte> filled = found.claim.fill(5000);
  EXPECT_FALSE(found.claim);

  const SharedCache::Found hit = cache->find_or_claim(key_number(1), 5000);
  EXPECT_EQ(hit.state, State::kHit);
  EXPECT_EQ(hit.bytes.data(), filled.data());
  EXPECT_EQ(hit.bytes.size(), 5000U);
  EXPECT_TRUE(is_sample(hit.bytes, 1));

  const SharedCache::Stats stats = cache->stats();
  EXPECT_EQ(stats.hits, 1U);
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.busy, 0U);
  EXPECT_EQ(stats.full, 0U);
  EXPECT_EQ(stats.entries, 1U);
  EXPECT_EQ(stats.filled_bytes, 5000U);
  EXPECT_EQ(stats.used_bytes, 8192U);
  EXPECT_EQ(stats.limit_bytes, kMiB);
}

TEST(SharedCache, WhatOneUserFillsAllHit) {
  const MemoryFolder folder;
  const auto first = folder.open();
  const auto second = folder.open();
  put(*first, 1, 100);
  put(*second, 2, 200);
  EXPECT_TRUE(is_sample(second->find_or_claim(key_number(1), 100).bytes, 1));
  EXPECT_TRUE(is_sample(first->find_or_claim(key_number(2), 200).bytes, 2));
  EXPECT_EQ(first->stats().entries, 2U);
  EXPECT_EQ(first->stats().hits, 1U);  // Its own.
}

TEST(SharedCache, AClaimedSampleIsBusyForAllOthersUntilItIsFilled) {
  const MemoryFolder folder;
  const auto first = folder.open();
  const auto second = folder.open();
  SharedCache::Found found = first->find_or_claim(key_number(1), 100);
  EXPECT_EQ(first->find_or_claim(key_number(1), 100).state, State::kBusy);
  EXPECT_EQ(second->find_or_claim(key_number(1), 100).state, State::kBusy);
  write_sample(found.claim.memory().first(100), 1);
  found.claim.fill(100);
  EXPECT_EQ(second->find_or_claim(key_number(1), 100).state, State::kHit);
  EXPECT_EQ(first->stats().busy, 1U);
}

TEST(SharedCache, OfTwoThreadsOneClaims) {
  const MemoryFolder folder;
  const auto cache = folder.open(8 * kMiB);
  constexpr std::uint64_t kNumbers = 380;
  std::array<std::vector<SharedCache::Found>, 2> found;
  std::atomic<std::uint64_t> arrived{0};
  std::vector<std::thread> threads;
  threads.reserve(found.size());
  for (auto& mine : found) {
    threads.emplace_back([&] {
      for (std::uint64_t number = 0; number < kNumbers; ++number) {
        ++arrived;
        while (arrived < 2 * (number + 1)) {  // Both ask at the same instant.
        }
        mine.push_back(cache->find_or_claim(key_number(number), 10));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::uint64_t number = 0; number < kNumbers; ++number) {
    EXPECT_EQ(std::multiset<State>({found[0][number].state, found[1][number].state}),
              (std::multiset<State>{State::kClaimed, State::kBusy}));
  }
}

TEST(SharedCache, WhoWaitedForTheLockLooksAgain) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  const auto file = CacheFile::open(folder.cache_file(), kMiB);
  ASSERT_TRUE(file) << file.error().message;
  for (std::uint64_t number = 0; number < 5; ++number) {
    std::array<SharedCache::Found, 2> found;
    std::vector<std::thread> threads;
    {
      const CacheLock lock(**file);
      for (SharedCache::Found& mine : found) {
        threads.emplace_back([&] { mine = cache->find_or_claim(key_number(number), 10); });
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // Both have found it missing.
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_FALSE(found[0].claim && found[1].claim);
    EXPECT_LE(cache->stats().misses, number + 1);
  }
}

TEST(SharedCache, AnAbandonedSampleGoesToTheNextInItsOldPlace) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  const std::byte* place = nullptr;
  {
    const SharedCache::Found found = cache->find_or_claim(key_number(1), 5000);
    place = found.claim.memory().data();
  }
  EXPECT_EQ(cache->verify()->abandoned, 1U);
  SharedCache::Found again = cache->find_or_claim(key_number(1), 5000);
  ASSERT_EQ(again.state, State::kClaimed);
  EXPECT_EQ(again.claim.memory().data(), place);
  EXPECT_EQ(cache->stats().used_bytes, 8192U);
  EXPECT_EQ(cache->stats().takeovers, 0U);  // Nobody died.
  again.claim.abandon();
  EXPECT_EQ(cache->find_or_claim(key_number(1), 9000).state,
            State::kFull);  // Its place is smaller.
}

TEST(SharedCache, AClaimMovesAndEndsOnce) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  SharedCache::Claim claim = cache->find_or_claim(key_number(1), 10).claim;
  SharedCache::Claim moved = std::move(claim);
  EXPECT_FALSE(claim);  // NOLINT(bugprone-use-after-move)
  EXPECT_TRUE(claim.memory().empty());
  EXPECT_TRUE(claim.fill(0).empty());
  EXPECT_EQ(cache->find_or_claim(key_number(1), 10).state, State::kBusy);
  moved = {};
  EXPECT_EQ(cache->find_or_claim(key_number(1), 10).state, State::kClaimed);
}

TEST(SharedCache, KeepsWhatCameFirstWhenItIsFull) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  for (std::uint64_t number = 0; number < 3; ++number) put(*cache, number, 300'000);
  EXPECT_EQ(cache->find_or_claim(key_number(3), 300'000).state, State::kFull);
  put(*cache, 4, 100'000);  // A smaller one still fits.
  EXPECT_EQ(cache->find_or_claim(key_number(3), 300'000).state, State::kFull);
  for (std::uint64_t number = 0; number < 3; ++number) {
    EXPECT_TRUE(is_sample(cache->find_or_claim(key_number(number), 300'000).bytes, number));
  }
  EXPECT_EQ(cache->stats().full, 2U);
  EXPECT_LE(cache->stats().used_bytes, kMiB);
}

TEST(SharedCache, TheLimitIsReachedToTheByte) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  put(*cache, 1, kMiB - 4096);
  put(*cache, 2, 4096);
  EXPECT_EQ(cache->find_or_claim(key_number(3), 0).state, State::kFull);
  EXPECT_EQ(cache->stats().used_bytes, kMiB);
  EXPECT_EQ(cache->verify()->torn_entries, 0U);
}

TEST(SharedCache, IsFullOfSmallSamplesWhenItsTableIs) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  std::uint64_t count = 0;
  while (cache->find_or_claim(key_number(count), 10).claim) ++count;
  EXPECT_EQ(count, 48U);  // Three quarters of 1 MiB / 16 KiB.
  EXPECT_EQ(cache->find_or_claim(key_number(count), 10).state, State::kFull);
  EXPECT_EQ(cache->find_or_claim(key_number(0), 10).state, State::kClaimed);  // Abandoned above.
}

TEST(SharedCache, SamplesWithoutBytesAndOfAnySizeAreAnswered) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  put(*cache, 1, 0);
  const SharedCache::Found hit = cache->find_or_claim(key_number(1), 0);
  EXPECT_EQ(hit.state, State::kHit);
  EXPECT_TRUE(hit.bytes.empty());
  EXPECT_EQ(cache->find_or_claim(key_number(2), kMiB + 1).state, State::kFull);
  EXPECT_EQ(cache->find_or_claim(key_number(2), ~std::size_t{0}).state, State::kFull);
}

TEST(SharedCache, FillingMoreThanThereIsRoomForAbandons) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  SharedCache::Found found = cache->find_or_claim(key_number(1), 10);
  EXPECT_TRUE(found.claim.fill(4097).empty());
  EXPECT_FALSE(found.claim);
  EXPECT_EQ(cache->stats().entries, 0U);
  EXPECT_EQ(cache->find_or_claim(key_number(1), 10).state, State::kClaimed);
}

TEST(SharedCache, VerifyFindsOverwrittenBytes) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  put(*cache, 1, 5000);
  const std::span<const std::byte> bytes = put(*cache, 2, 5000);
  auto verified = cache->verify();
  ASSERT_TRUE(verified) << verified.error().message;
  EXPECT_EQ(verified->entries, 2U);
  EXPECT_EQ(verified->torn_entries, 0U);
  EXPECT_EQ(verified->stray_bytes, 0U);
  const_cast<std::byte&>(bytes[4999]) ^= std::byte{1};
  EXPECT_EQ(cache->verify()->torn_entries, 1U);
}

TEST(SharedCache, KeysDifferInEveryPartOfTheFileAndTheRange) {
  struct stat file{};
  std::vector<SharedCache::Key> keys = {key_of(file, 0, 0), key_of(file, 1, 0), key_of(file, 0, 1)};
  const auto with = [&](auto change) {
    struct stat changed{};
    change(changed);
    keys.push_back(key_of(changed, 0, 0));
  };
  with([](struct stat& f) { f.st_dev = 1; });
  with([](struct stat& f) { f.st_ino = 1; });
  with([](struct stat& f) { f.st_size = 1; });
  with([](struct stat& f) { f.st_mtim.tv_sec = 1; });
  with([](struct stat& f) { f.st_mtim.tv_nsec = 1; });
  with([](struct stat& f) { f.st_ctim.tv_sec = 1; });
  with([](struct stat& f) { f.st_ctim.tv_nsec = 1; });
  std::set<std::pair<std::uint64_t, std::uint64_t>> distinct;
  for (const SharedCache::Key& key : keys) distinct.emplace(key.high, key.low);
  EXPECT_EQ(distinct.size(), keys.size());
  EXPECT_EQ(key_of(file, 1, 0), keys[1]);
}

TEST(SharedCache, EightThreadsOfTwoUsersAgree) {
  const MemoryFolder folder;
  const std::array users = {folder.open(4 * kMiB), folder.open(4 * kMiB)};
  constexpr std::uint64_t kNumbers = 150;
  const auto size_of = [](std::uint64_t number) { return 1 + number * 977 % 40'000; };
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      SharedCache& cache = *users[t % users.size()];
      std::mt19937 random(t);
      for (int i = 0; i < 2000; ++i) {
        const std::uint64_t number = random() % kNumbers;
        SharedCache::Found found = cache.find_or_claim(key_number(number), size_of(number));
        if (found.state == State::kHit && !is_sample(found.bytes, number)) ++wrong;
        if (found.state != State::kClaimed || random() % 4 == 0) continue;
        write_sample(found.claim.memory().first(size_of(number)), number);
        if (found.claim.fill(size_of(number)).empty()) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  const auto verified = users[0]->verify();
  ASSERT_TRUE(verified) << verified.error().message;
  EXPECT_EQ(verified->torn_entries, 0U);
  EXPECT_EQ(verified->stray_bytes, 0U);
  EXPECT_EQ(verified->claimed, 0U);
  EXPECT_EQ(verified->entries, users[1]->stats().entries);
  EXPECT_GT(verified->entries, 50U);
  const std::uint64_t asked = 16'000;
  std::uint64_t answered = 0;
  for (const auto& user : users) {
    const SharedCache::Stats stats = user->stats();
    answered += stats.hits + stats.misses + stats.busy + stats.full;
  }
  EXPECT_EQ(answered, asked);
}

}  // namespace
}  // namespace feedrace::storage
