// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/verify_totals.h"

#include <algorithm>
#include <bit>

namespace feedrace::pack {
namespace {

constexpr std::size_t kEmptyNamed = 10;
constexpr std::size_t kValueBits = 64;

}  // namespace

std::size_t SpreadCounter::bin_of(std::uint64_t value) noexcept {
  if (value < kSteps) return static_cast<std::size_t>(value);
  const auto doubling = static_cast<std::size_t>(std::bit_width(value)) - 1 - kStepBits;
  return (doubling + 1) * kSteps + static_cast<std::size_t>((value >> doubling) & (kSteps - 1));
}

std::uint64_t SpreadCounter::lowest_of(std::size_t bin) noexcept {
  if (bin < kSteps) return bin;
  return (kSteps + bin % kSteps) << (bin / kSteps - 1);
}

void SpreadCounter::add(std::uint64_t value) {
  if (bins_.empty()) bins_.resize((kValueBits - kStepBits + 1) * kSteps);
  ++bins_[bin_of(value)];
  ++count_;
  sum_ += value;
  smallest_ = std::min(smallest_, value);
  largest_ = std::max(largest_, value);
}

void SpreadCounter::merge(const SpreadCounter& other) {
  if (other.count_ == 0) return;
  if (bins_.empty()) bins_.resize(other.bins_.size());
  for (std::size_t i = 0; i < bins_.size(); ++i) bins_[i] += other.bins_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  smallest_ = std::min(smallest_, other.smallest_);
  largest_ = std::max(largest_, other.largest_);
}

VerifyReport::Spread SpreadCounter::spread() const {
  VerifyReport::Spread spread;
  if (count_ == 0) return spread;
  spread = {count_, smallest_, largest_, largest_, sum_};
  std::uint64_t below = 0;
  for (std::size_t i = 0; i < bins_.size(); ++i) {
    below += bins_[i];
    if (2 * below < count_) continue;
    spread.median = std::max(smallest_, lowest_of(i));
    break;
  }
  return spread;
}

void ClassCounter::add(std::int64_t label, std::uint64_t count) {
  if (has_overflowed_) return;
  counts_[label] += count;
  has_overflowed_ = counts_.size() > kMaxClasses;
  if (has_overflowed_) counts_ = {};
}

void ClassCounter::merge(const ClassCounter& other) {
  has_overflowed_ = has_overflowed_ || other.has_overflowed_;
  for (const auto& [label, count] : other.counts_) add(label, count);
  if (has_overflowed_) counts_ = {};
}

VerifyReport::Classes ClassCounter::classes(std::uint64_t class_count) const {
  VerifyReport::Classes classes;
  classes.is_known = !has_overflowed_;
  classes.count = counts_.size();
  if (counts_.empty()) return classes;
  std::vector<VerifyReport::ClassCount> all;
  all.reserve(counts_.size());
  for (const auto& [label, count] : counts_) all.push_back({label, count});
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.label < b.label; });
  // Of several the one with the lowest label.
  const auto fewer = [](const auto& a, const auto& b) { return a.sample_count < b.sample_count; };
  classes.smallest = *std::min_element(all.begin(), all.end(), fewer);
  classes.largest = *std::max_element(all.begin(), all.end(), fewer);

  // Labels such as 10^12 are no numbers of classes; all between would be called empty.
  const std::int64_t most = all.back().label;
  if (class_count == 0 && most >= static_cast<std::int64_t>(kMaxClasses)) return classes;
  const std::uint64_t end = class_count > 0 ? class_count : static_cast<std::uint64_t>(most) + 1;
  std::uint64_t next = 0;
  const auto skip_to = [&](std::uint64_t label) {
    classes.empty_count += label - next;
    for (; next < label && classes.first_empty.size() < kEmptyNamed; ++next) {
      classes.first_empty.push_back(static_cast<std::int64_t>(next));
    }
    next = label + 1;
  };
  if (most < 0 && class_count == 0) return classes;
  for (const auto& one : all) {
    const bool counts = one.label >= 0 && static_cast<std::uint64_t>(one.label) < end;
    if (counts) skip_to(static_cast<std::uint64_t>(one.label));
  }
  if (next < end) skip_to(end);
  return classes;
}

void VerifyTotals::merge(const VerifyTotals& other) {
  sample_count += other.sample_count;
  picture_count += other.picture_count;
  decoded_count += other.decoded_count;
  flagged_count += other.flagged_count;
  checksum_count += other.checksum_count;
  labelled_count += other.labelled_count;
  for (const auto& [field, count] : other.fields) fields[field] += count;
  bytes.merge(other.bytes);
  pixels.merge(other.pixels);
  classes.merge(other.classes);
}

}  // namespace feedrace::pack
