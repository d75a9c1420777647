// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "feedrace/verify.h"

namespace feedrace::pack {

/// Smallest, median and largest of any number of values, in 60 KiB: values from 128 up are counted
/// in steps of less than 1 %.
class SpreadCounter {
 public:
  void add(std::uint64_t value);
  void merge(const SpreadCounter& other);
  VerifyReport::Spread spread() const;

 private:
  static constexpr std::size_t kStepBits = 7;  // 128 steps a doubling.
  static constexpr std::size_t kSteps = std::size_t{1} << kStepBits;

  static std::size_t bin_of(std::uint64_t value) noexcept;
  static std::uint64_t lowest_of(std::size_t bin) noexcept;

  std::vector<std::uint64_t> bins_;
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t smallest_ = ~std::uint64_t{0};
  std::uint64_t largest_ = 0;
};

/// Samples a label.
class ClassCounter {
 public:
  /// More different labels are no classes, and are not counted.
  static constexpr std::size_t kMaxClasses = 1'000'000;

  void add(std::int64_t label, std::uint64_t count = 1);
  void merge(const ClassCounter& other);
  bool empty() const noexcept { return counts_.empty() && !has_overflowed_; }
  /// Empty are those of 0 to `class_count` - 1, or to the largest label where that is 0.
  VerifyReport::Classes classes(std::uint64_t class_count) const;

 private:
  std::unordered_map<std::int64_t, std::uint64_t> counts_;
  bool has_overflowed_ = false;
};

/// What is counted whatever the order.
struct VerifyTotals {
  std::uint64_t sample_count = 0;
  std::uint64_t picture_count = 0;
  std::uint64_t decoded_count = 0;
  std::uint64_t flagged_count = 0;
  std::uint64_t checksum_count = 0;
  std::uint64_t labelled_count = 0;  ///< With a label, be it a bad one.
  std::map<std::string, std::uint64_t> fields;
  SpreadCounter bytes;
  SpreadCounter pixels;
  ClassCounter classes;

  void merge(const VerifyTotals& other);
};

}  // namespace feedrace::pack
