// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace feedrace::storage {

/// First in, first out, with room for `capacity` items taken once: the read path must not allocate,
/// since `submit()` and `wait()` can't throw. Not thread-safe.
template <typename T>
class FixedQueue {
 public:
  explicit FixedQueue(std::size_t capacity) : items_(capacity) {}

  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

  /// There must be room.
  void push(T item) noexcept {
    items_[(first_ + size_) % items_.size()] = std::move(item);
    ++size_;
  }

  /// There must be an item.
  T pop() noexcept {
    T item = std::move(items_[first_]);
    first_ = (first_ + 1) % items_.size();
    --size_;
    return item;
  }

 private:
  std::vector<T> items_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace feedrace::storage
