// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/selection.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <xxhash.h>

namespace feedrace::order {
namespace {

// Words of a mask that share one count: the counts add an eighth to the mask.
constexpr std::size_t kBlockWords = 8;

/// The place of the bit with `rank` set bits below it.
unsigned select_in_word(std::uint64_t word, std::uint64_t rank) noexcept {
  for (std::uint64_t i = 0; i < rank; ++i) word &= word - 1;
  return static_cast<unsigned>(std::countr_zero(word));
}

bool has_repeats(const std::vector<std::uint64_t>& samples) {
  // Most lists ascend, which is cheap to see.
  const auto descent = std::adjacent_find(samples.begin(), samples.end(),
                                          [](std::uint64_t a, std::uint64_t b) { return a >= b; });
  if (descent == samples.end()) return false;
  std::unordered_set<std::uint64_t> seen;
  seen.reserve(samples.size());
  return !std::all_of(samples.begin(), samples.end(),
                      [&](std::uint64_t sample) { return seen.insert(sample).second; });
}

}  // namespace

Selection Selection::all(std::uint64_t count) {
  Selection selection;
  selection.size_ = count;
  return selection;
}

Selection Selection::list(std::vector<std::uint64_t> samples) {
  Selection selection;
  selection.size_ = samples.size();
  if (has_repeats(samples)) {
    std::unordered_map<std::uint64_t, std::uint32_t> counts;
    selection.occurrences_.reserve(samples.size());
    for (const std::uint64_t sample : samples) {
      const std::uint32_t before = counts[sample]++;
      selection.occurrences_.push_back(before);
      if (before > 0) ++selection.repeat_count_;
    }
  }
  selection.samples_ = std::move(samples);
  return selection;
}

Selection Selection::mask(std::vector<std::uint64_t> bits) {
  Selection selection;
  for (std::size_t i = 0; i < bits.size(); ++i) {
    if (i % kBlockWords == 0) selection.ranks_.push_back(selection.size_);
    selection.size_ += static_cast<std::uint64_t>(std::popcount(bits[i]));
  }
  selection.bits_ = std::move(bits);
  return selection;
}

std::uint64_t Selection::select(std::uint64_t rank) const noexcept {
  const auto block = std::upper_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin() - 1;
  std::size_t word = static_cast<std::size_t>(block) * kBlockWords;
  rank -= ranks_[static_cast<std::size_t>(block)];
  while (true) {
    const auto count = static_cast<std::uint64_t>(std::popcount(bits_[word]));
    if (rank < count) return word * 64 + select_in_word(bits_[word], rank);
    rank -= count;
    ++word;
  }
}

std::uint64_t Selection::sample(std::uint64_t member) const noexcept {
  if (!samples_.empty()) return samples_[member];
  return bits_.empty() ? member : select(member);
}

std::string Selection::digest() const {
  const std::vector<std::uint64_t>& content = samples_.empty() ? bits_ : samples_;
  const std::uint64_t hash =
      XXH3_64bits_withSeed(content.data(), content.size() * sizeof(std::uint64_t), size_);
  return fmt::format("{:016x}", hash);
}

std::uint64_t Selection::occurrence(std::uint64_t member) const noexcept {
  return occurrences_.empty() ? 0 : occurrences_[member];
}

}  // namespace feedrace::order
