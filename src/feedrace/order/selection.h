// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace feedrace::order {

/// The samples of a data set that are used, numbered anew from 0: its members. Immutable,
/// thread-safe. Takes no memory for a whole set, a bit a sample of the set for one chosen by a
/// condition, 8 bytes a member for a list.
class Selection {
 public:
  /// All of [0, count).
  static Selection all(std::uint64_t count);
  /// These samples in this order; one may come several times.
  static Selection list(std::vector<std::uint64_t> samples);
  /// Those whose bit is set, ascending: bit i % 64 of word i / 64 is sample i.
  static Selection mask(std::vector<std::uint64_t> bits);

  std::uint64_t size() const noexcept { return size_; }
  /// The sample at place `member`, which is below `size()`.
  std::uint64_t sample(std::uint64_t member) const noexcept;
  bool is_list() const noexcept { return !samples_.empty(); }
  /// How often the same sample stands in the list before `member`: 0 but for repeats.
  std::uint64_t occurrence(std::uint64_t member) const noexcept;
  /// Members that repeat one before them.
  std::uint64_t repeat_count() const noexcept { return repeat_count_; }
  /// 16 hex digits over the members in order and the way they were chosen; O(members).
  std::string digest() const;

 private:
  Selection() = default;
  std::uint64_t select(std::uint64_t rank) const noexcept;

  std::uint64_t size_ = 0;
  std::uint64_t repeat_count_ = 0;
  std::vector<std::uint64_t> samples_;      // Of a list.
  std::vector<std::uint32_t> occurrences_;  // Of a list with repeats.
  std::vector<std::uint64_t> bits_;         // Of a mask.
  std::vector<std::uint64_t> ranks_;        // Bits set before each block of `bits_`.
};

}  // namespace feedrace::order
