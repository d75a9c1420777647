// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <pthread.h>

namespace feedrace::storage {

class CacheFile;

/// The right to make slots. Not held (false) when the lock was not free within 0.1 s: its holder is
/// stopped, or the machine is.
class CacheLock {
 public:
  explicit CacheLock(const CacheFile& file) noexcept;
  ~CacheLock();
  CacheLock(const CacheLock&) = delete;
  CacheLock& operator=(const CacheLock&) = delete;

  explicit operator bool() const noexcept { return is_held_; }

 private:
  pthread_mutex_t& mutex_;
  bool is_held_ = false;
};

/// Makes the lock of a new file, in place.
void make_cache_mutex(pthread_mutex_t& mutex) noexcept;

}  // namespace feedrace::storage
