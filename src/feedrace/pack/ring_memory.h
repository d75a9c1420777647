// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>
#include <span>

#include "feedrace/core/alignment.h"

namespace feedrace::pack {

/// Memory that is handed out and given back in the same order. Not thread-safe.
class RingMemory {
 public:
  static constexpr std::size_t kAlignmentBytes = 4096;

  /// `bytes` is a multiple of the alignment.
  explicit RingMemory(std::size_t bytes)
      : memory_(static_cast<std::byte*>(std::aligned_alloc(kAlignmentBytes, bytes))),
        bytes_(bytes) {
    if (memory_ == nullptr) throw std::bad_alloc();
  }

  std::span<std::byte> all() noexcept { return {memory_.get(), bytes_}; }
  std::size_t size_bytes() const noexcept { return bytes_; }

  /// Aligned memory, or none where there is no room yet.
  std::span<std::byte> take(std::size_t bytes) noexcept {
    const std::uint64_t wanted = round_up(bytes, kAlignmentBytes);
    std::uint64_t begin = end_;
    const std::uint64_t to_border = bytes_ - begin % bytes_;
    if (wanted > to_border) begin += to_border;  // What is handed out lies in one piece.
    if (begin + wanted - begin_ > bytes_) return {};
    end_ = begin + wanted;
    return {memory_.get() + begin % bytes_, bytes};
  }
  /// Up to here memory has been handed out: what `give_back` takes.
  std::uint64_t end() const noexcept { return end_; }
  /// All that was handed out before `end()` was `position`.
  void give_back(std::uint64_t position) noexcept {
    if (position > begin_) begin_ = position;  // Of nothing that was handed out it may be older.
    if (begin_ == end_) begin_ = end_ = round_up_to_start(end_);
  }
  /// Undoes what was handed out since `end()` was `position`.
  void undo(std::uint64_t position) noexcept { end_ = position; }

 private:
  /// An empty ring begins anew, so that a large piece always fits.
  std::uint64_t round_up_to_start(std::uint64_t position) const noexcept {
    return (position + bytes_ - 1) / bytes_ * bytes_;
  }
  struct Free {
    void operator()(std::byte* memory) const noexcept { std::free(memory); }
  };

  const std::unique_ptr<std::byte, Free> memory_;
  const std::size_t bytes_;
  std::uint64_t begin_ = 0;  // Counted on, not wrapped.
  std::uint64_t end_ = 0;
};

}  // namespace feedrace::pack
