// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace feedrace {

/// A first-in first-out queue between threads that holds at most `capacity` items: its full state
/// is the back-pressure between two stages. Thread-safe.
template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {}

  /// Waits for room. Returns false, and drops `item`, once the queue is closed or cancelled.
  bool push(T item) {
    {
      std::unique_lock lock(mutex_);
      not_full_.wait(lock, [&] { return items_.size() < capacity_ || ended_; });
      if (ended_) return false;
      items_.push_back(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  /// The same for several, which are moved out of `items`; wakes whoever waits once, not once each.
  /// Room may be waited for in between. `items` is empty afterwards.
  bool push_all(std::vector<T>& items) {
    std::size_t next = 0;
    bool goes_on = true;
    while (goes_on && next < items.size()) {
      std::size_t pushed = 0;
      {
        std::unique_lock lock(mutex_);
        not_full_.wait(lock, [&] { return items_.size() < capacity_ || ended_; });
        goes_on = !ended_;
        for (; goes_on && next < items.size() && items_.size() < capacity_; ++next, ++pushed) {
          items_.push_back(std::move(items[next]));
        }
      }
      if (pushed == 1) not_empty_.notify_one();
      if (pushed > 1) not_empty_.notify_all();
    }
    items.clear();
    return goes_on;
  }

  /// Waits for an item. Returns nothing once the queue is closed and drained, or cancelled.
  std::optional<T> pop() {
    std::optional<T> item;
    {
      std::unique_lock lock(mutex_);
      not_empty_.wait(lock, [&] { return !items_.empty() || ended_; });
      if (items_.empty()) return item;
      item.emplace(std::move(items_.front()));
      items_.pop_front();
    }
    not_full_.notify_one();
    return item;
  }

  /// No more will be pushed; what is inside can still be popped.
  void close() { end(/*drop=*/false); }

  /// Ends now: what is inside is dropped.
  void cancel() { end(/*drop=*/true); }

  std::size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }
  std::size_t capacity() const noexcept { return capacity_; }

 private:
  void end(bool drop) {
    std::deque<T> dropped;  // Destroyed outside the lock: an item may hold a lease.
    {
      std::lock_guard lock(mutex_);
      ended_ = true;
      if (drop) dropped.swap(items_);
    }
    not_full_.notify_all();
    not_empty_.notify_all();
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable not_full_;
  std::condition_variable not_empty_;
  std::deque<T> items_;  // Guarded by mutex_.
  bool ended_ = false;   // Guarded by mutex_.
};

}  // namespace feedrace
