// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <thread>

#include "feedrace/loader.h"

namespace feedrace::tools {

/// While it lives, SIGINT and SIGTERM cancel the loader, whose `next()` then throws kCancelled and
/// whose threads end in order; a second one, or one while there is no loader and nobody asks, ends
/// the process at once. Make it before the loader's threads start: they inherit the blocked
/// signals.
class InterruptGuard {
 public:
  /// Throws Error kIo when the signals can't be taken over.
  InterruptGuard();
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  bool is_interrupted() const;

  /// While it lives, signals cancel `loader`, which outlives it.
  class Watch {
   public:
    Watch(InterruptGuard& guard, Loader& loader) : guard_(guard) { guard_.set(&loader); }
    ~Watch() { guard_.set(nullptr); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    InterruptGuard& guard_;
  };

  /// While it lives, the first signal is only noted, for work that asks `is_interrupted()` now and
  /// then and has something to clean up.
  class Asking {
   public:
    explicit Asking(InterruptGuard& guard) : guard_(guard) { guard_.set_asked(true); }
    ~Asking() { guard_.set_asked(false); }
    Asking(const Asking&) = delete;
    Asking& operator=(const Asking&) = delete;

   private:
    InterruptGuard& guard_;
  };

 private:
  void set(Loader* loader) noexcept;
  void set_asked(bool is_asked) noexcept;
  void serve() noexcept;

  int signal_fd_ = -1;
  int end_fd_ = -1;
  mutable std::mutex mutex_;
  Loader* loader_ = nullptr;  // Guarded by mutex_.
  bool is_asked_ = false;     // Guarded by mutex_.
  bool interrupted_ = false;  // Guarded by mutex_.
  std::thread thread_;
};

}  // namespace feedrace::tools
