// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/shared_cache_lock.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>

#include "feedrace/storage/clock.h"
#include "feedrace/storage/shared_cache_file.h"
#include "feedrace/storage/shared_cache_layout.h"

namespace feedrace::storage {
namespace {

constexpr std::uint64_t kLockPatienceNs = 100'000'000;
constexpr std::chrono::microseconds kLockPause{20};  // It is held for less than that.

/// What a killed holder of the lock may have left undone follows from the slots.
void repair(const CacheFile& file) noexcept {
  std::uint64_t used_bytes = 0;
  std::uint64_t used_slots = 0;
  for (const Slot& slot : file.slots()) {
    if (kind_of(slot.state.load(std::memory_order_acquire)) == SlotKind::kEmpty) continue;
    used_bytes = std::max(used_bytes, slot.offset_bytes + slot.room_bytes);
    ++used_slots;
  }
  file.header().used_bytes.store(used_bytes, std::memory_order_relaxed);
  file.header().used_slots.store(used_slots, std::memory_order_relaxed);
}

}  // namespace

void make_cache_mutex(pthread_mutex_t& mutex) noexcept {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
}

CacheLock::CacheLock(const CacheFile& file) noexcept : mutex_(file.header().mutex) {
  // No timed lock: its clock can be set, and g++ 12's thread sanitizer knows no dead owner there.
  int code = pthread_mutex_trylock(&mutex_);
  for (const std::uint64_t end_ns = now_ns() + kLockPatienceNs; code == EBUSY && now_ns() < end_ns;
       code = pthread_mutex_trylock(&mutex_)) {
    std::this_thread::sleep_for(kLockPause);
  }
  if (code == EOWNERDEAD) {
    repair(file);
    pthread_mutex_consistent(&mutex_);
  }
  is_held_ = code == 0 || code == EOWNERDEAD;
}

CacheLock::~CacheLock() {
  if (is_held_) pthread_mutex_unlock(&mutex_);
}

}  // namespace feedrace::storage
