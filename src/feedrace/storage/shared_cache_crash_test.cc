// SPDX-License-Identifier: Apache-2.0
// Processes that use a shared cache are killed, at chosen and at random instants.

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "feedrace/storage/shared_cache.h"
#include "feedrace/storage/shared_cache_file.h"
#include "feedrace/storage/shared_cache_layout.h"
#include "feedrace/storage/shared_cache_lock.h"
#include "feedrace/storage/test_shared_cache.h"

namespace feedrace::storage {
namespace {

using State = SharedCache::State;
using Say = std::function<void(int)>;

bool was_killed(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL; }

TEST(SharedCacheCrash, AClaimIsBusyWhileItsProcessLivesAndTakenOverAfterwards) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  Child child([&](const Say& say) {
    const auto own = folder.open();
    const SharedCache::Found found = own->find_or_claim(key_number(1), 5000);
    write_sample(found.claim.memory().first(2000), 1);
    say(static_cast<int>(found.state));
    stay();
  });
  ASSERT_EQ(child.hear(), static_cast<int>(State::kClaimed));
  EXPECT_EQ(cache->find_or_claim(key_number(1), 5000).state, State::kBusy);
  ASSERT_TRUE(was_killed(child.end()));
  EXPECT_EQ(cache->verify()->claimed, 1U);
  put(*cache, 1, 5000);
  EXPECT_EQ(cache->stats().takeovers, 1U);
  EXPECT_EQ(cache->stats().used_bytes, 8192U);  // In the same place.
  EXPECT_TRUE(is_sample(cache->find_or_claim(key_number(1), 5000).bytes, 1));
}

TEST(SharedCacheCrash, AClaimOfAnEarlierUserOfTheSameSeatIsNotTheNewUsers) {
  const MemoryFolder folder;
  const auto keeper = folder.open();
  Child child([&](const Say& say) {
    const auto own = folder.open();
    const SharedCache::Found found = own->find_or_claim(key_number(1), 10);
    say(0);
    stay();
  });
  ASSERT_EQ(child.hear(), 0);
  child.end();
  const auto next = folder.open();  // On the dead process's seat.
  EXPECT_EQ(keeper->find_or_claim(key_number(1), 10).state, State::kClaimed);
  EXPECT_EQ(keeper->stats().takeovers, 1U);
  EXPECT_EQ(next->find_or_claim(key_number(1), 10).state, State::kClaimed);  // Abandoned above.
  EXPECT_EQ(next->stats().takeovers, 0U);
}

TEST(SharedCacheCrash, AChildThatItForkedDoesNotKeepADeadProcessesClaim) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  Child child([&](const Say& say) {
    const auto own = folder.open();
    const SharedCache::Found found = own->find_or_claim(key_number(1), 10);
    const pid_t grandchild = fork();
    if (grandchild == 0) stay();
    say(grandchild);
    stay();
  });
  const pid_t grandchild = child.hear();
  ASSERT_GT(grandchild, 0);
  EXPECT_EQ(cache->find_or_claim(key_number(1), 10).state, State::kBusy);
  child.end();
  EXPECT_EQ(kill(grandchild, 0), 0);
  EXPECT_EQ(cache->find_or_claim(key_number(1), 10).state, State::kClaimed);
  kill(grandchild, SIGKILL);
}

TEST(SharedCacheCrash, AClaimFromAnotherPidNamespaceEndsWithItsProcess) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  Child child([&](const Say& say) {
    const auto own = folder.open();
    const SharedCache::Found found = own->find_or_claim(key_number(1), 10);
    const auto file = CacheFile::open(folder.cache_file(), kMiB);
    for (Seat& seat : (*file)->header().seats) {
      seat.pid = static_cast<std::uint64_t>(getppid());  // Somebody else's here, and alive.
      seat.pid_namespace = 1;
    }
    say(0);
    stay();
  });
  ASSERT_EQ(child.hear(), 0);
  EXPECT_EQ(cache->find_or_claim(key_number(1), 10).state, State::kBusy);
  child.end();
  EXPECT_EQ(cache->find_or_claim(key_number(1), 10).state, State::kClaimed);
}

TEST(SharedCacheCrash, TheLockOfAKilledProcessIsRepaired) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  put(*cache, 1, 10);
  Child child([&](const Say& say) {
    const auto file = CacheFile::open(folder.cache_file(), kMiB);
    const CacheLock lock(**file);
    // As far as `insert` comes before it counts the place as used.
    Slot& slot = (*file)->slots()[2];
    slot.key = key_number(2);
    slot.offset_bytes = 4096;
    slot.room_bytes = 8192;
    slot.state.store((*file)->own_claim());
    say(lock ? 1 : 0);
    stay();
  });
  ASSERT_EQ(child.hear(), 1);
  EXPECT_EQ(cache->find_or_claim(key_number(3), 10).state, State::kBusy);  // The lock is held.
  EXPECT_FALSE(cache->verify());
  EXPECT_EQ(cache->find_or_claim(key_number(1), 10).state, State::kHit);  // Needs none.
  child.end();
  put(*cache, 3, 10);
  put(*cache, 2, 8000);
  const auto verified = cache->verify();
  ASSERT_TRUE(verified) << verified.error().message;
  EXPECT_EQ(verified->entries, 3U);
  EXPECT_EQ(verified->torn_entries, 0U);
  EXPECT_EQ(verified->stray_bytes, 0U);
  EXPECT_EQ(cache->stats().used_bytes, 4096U + 8192 + 4096);
}

TEST(SharedCacheCrash, AnEmptySlotThatWasHalfWrittenIsUsedAgain) {
  const MemoryFolder folder;
  const auto cache = folder.open();
  Child child([&](const Say& say) {
    const auto file = CacheFile::open(folder.cache_file(), kMiB);
    const CacheLock lock(**file);
    Slot& slot = (*file)->slots()[1];
    slot.key = key_number(99);
    slot.offset_bytes = 77;
    say(0);
    stay();
  });
  ASSERT_EQ(child.hear(), 0);
  child.end();
  put(*cache, 1, 10);
  EXPECT_EQ(cache->verify()->stray_bytes, 0U);
  EXPECT_TRUE(is_sample(cache->find_or_claim(key_number(1), 10).bytes, 1));
}

TEST(SharedCacheCrash, TheFileOfDeadProcessesIsMadeAnew) {
  const MemoryFolder folder;
  Child child([&](const Say& say) {
    const auto own = folder.open(2 * kMiB);
    put(*own, 1, 10);
    say(0);
    stay();
  });
  ASSERT_EQ(child.hear(), 0);
  child.end();
  ASSERT_EQ(folder.file_count(), 1U);
  const auto cache = folder.open();  // With another limit, too.
  EXPECT_EQ(cache->stats().entries, 0U);
  EXPECT_EQ(cache->stats().limit_bytes, kMiB);
}

TEST(SharedCacheCrash, AForkedChildLeavesEverythingToItsParent) {
  const MemoryFolder folder;
  auto cache = folder.open();
  put(*cache, 1, 10);
  SharedCache::Found claimed = cache->find_or_claim(key_number(2), 10);
  Child child([&](const Say&) {
    const bool is_right = cache->find_or_claim(key_number(1), 10).state == State::kHit &&
                          cache->find_or_claim(key_number(2), 10).state == State::kBusy &&
                          cache->find_or_claim(key_number(3), 10).state == State::kBusy &&
                          !claimed.claim.fill(10).data();
    cache.reset();
    if (!is_right) throw std::runtime_error("child");
  });
  EXPECT_EQ(child.wait(), 0);
  const auto other = folder.open();  // Would make it anew if the child had let the lock go.
  EXPECT_EQ(other->find_or_claim(key_number(1), 10).state, State::kHit);
  EXPECT_EQ(other->find_or_claim(key_number(2), 10).state, State::kBusy);
  EXPECT_FALSE(claimed.claim.fill(10).empty());
  EXPECT_EQ(other->find_or_claim(key_number(2), 10).state, State::kHit);
}

constexpr std::uint64_t kLimitBytes = 8 * kMiB;
constexpr std::uint64_t kNumbers = 400;
const SharedCache::Key kStart{~std::uint64_t{0}, ~std::uint64_t{0}};

std::size_t size_of(std::uint64_t number) { return 1 + number * 977 % 40'000; }

void pause_up_to(std::mt19937& random, unsigned microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(random() % microseconds));
}

/// Random use for ever, as soon as kStart is filled. Throws on bytes that are not the sample's.
void use(const MemoryFolder& folder, unsigned seed) {
  std::mt19937 random(seed);
  while (true) {
    const auto cache = folder.open(kLimitBytes);
    while (cache->find_or_claim(kStart, 0).state != State::kHit) {
    }
    std::vector<SharedCache::Claim> held(3);
    for (int i = 0; i < 100; ++i) {
      const std::uint64_t number = random() % kNumbers;
      const std::size_t size = size_of(number);
      SharedCache::Found found = cache->find_or_claim(key_number(number), size);
      const bool is_hit = found.state == State::kHit;
      if (is_hit && (found.bytes.size() != size || !is_sample(found.bytes, number))) {
        throw std::runtime_error("torn");
      }
      if (!found.claim) continue;
      if (random() % 4 == 0) {
        held[random() % held.size()] = std::move(found.claim);
        continue;
      }
      write_sample(found.claim.memory().first(size / 2), number);
      pause_up_to(random, 50);
      write_sample(found.claim.memory().first(size), number);
      found.claim.fill(size);
    }
  }
}

/// Four processes use the cache and are killed one by one, soon after they began.
void use_and_kill(const MemoryFolder& folder, SharedCache& cache, std::mt19937& random) {
  SharedCache::Claim start = cache.find_or_claim(kStart, 0).claim;
  std::vector<std::unique_ptr<Child>> children;
  for (int c = 0; c < 4; ++c) {
    children.push_back(std::make_unique<Child>([&, seed = random()](const Say& say) {
      say(0);
      use(folder, static_cast<unsigned>(seed));
    }));
  }
  for (const auto& child : children) ASSERT_EQ(child->hear(), 0);
  start.fill(0);
  for (const auto& child : children) {
    pause_up_to(random, 3000);
    kill(child->pid(), SIGKILL);
  }
  for (const auto& child : children) ASSERT_TRUE(was_killed(child->wait())) << "it saw torn bytes";
}

/// Whatever dead processes had claimed can be had, and what they filled is there.
void expect_all_can_be_had(SharedCache& cache) {
  std::uint64_t full = 0;
  for (std::uint64_t number = 0; number < kNumbers; ++number) {
    SharedCache::Found found = cache.find_or_claim(key_number(number), size_of(number));
    ASSERT_NE(found.state, State::kBusy);
    full += found.state == State::kFull ? 1 : 0;
    EXPECT_TRUE(found.state != State::kHit || is_sample(found.bytes, number));
    if (!found.claim) continue;
    write_sample(found.claim.memory().first(size_of(number)), number);
    found.claim.fill(size_of(number));
  }
  const auto whole = cache.verify();
  ASSERT_TRUE(whole) << whole.error().message;
  EXPECT_EQ(whole->torn_entries, 0U);
  EXPECT_EQ(whole->stray_bytes, 0U);
  EXPECT_EQ(whole->claimed + whole->abandoned, 0U);
  EXPECT_EQ(whole->entries + full, kNumbers + 1);
}

TEST(SharedCacheCrash, ProcessesKilledAtRandomLeaveNothingTornAndNothingLost) {
  std::mt19937 random(1);
  std::uint64_t dead_claims = 0;
  for (int round = 0; round < 50 && !HasFatalFailure(); ++round) {
    SCOPED_TRACE(round);
    const MemoryFolder folder;
    const auto cache = folder.open(kLimitBytes);
    use_and_kill(folder, *cache, random);
    const auto left = cache->verify();
    ASSERT_TRUE(left) << left.error().message;
    EXPECT_EQ(left->torn_entries, 0U);
    EXPECT_EQ(left->stray_bytes, 0U);
    dead_claims += left->claimed;
    expect_all_can_be_had(*cache);
    EXPECT_EQ(folder.file_count(), 1U);
  }
  EXPECT_GT(dead_claims, 0U);
}

}  // namespace
}  // namespace feedrace::storage
