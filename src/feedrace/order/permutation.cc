// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/permutation.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <utility>

#include "feedrace/random.h"

namespace feedrace::order {
namespace {

// Domains below this would have round functions of so few bits that not all orders can occur.
constexpr unsigned kMinDomainBits = 12;

// Odd multipliers and shifts of MurmurHash3's 64-bit finaliser: each output bit depends on each
// input bit.
std::uint64_t mix(std::uint64_t x) noexcept {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53ULL;
  return x ^ (x >> 33);
}

std::uint64_t mask(unsigned bits) noexcept { return (std::uint64_t{1} << bits) - 1; }

}  // namespace

void Permutation::set_size(std::uint64_t n) noexcept {
  n_ = n;
  const auto needed = static_cast<unsigned>(std::bit_width(n - 1));
  const unsigned bits = std::max(kMinDomainBits, needed);
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
}

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch,
                         std::uint32_t stream) noexcept {
  set_size(n);
  SampleRandom random(seed, epoch, n, stream);
  for (std::uint64_t& key : keys_) {
    const std::uint64_t high = random.next();
    key = high << 32 | random.next();
  }
}

Permutation Permutation::tweaked(std::uint64_t n, std::uint64_t tweak) const noexcept {
  // Each key gets its own well-mixed number; an odd step keeps tweaks and rounds apart.
  constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;
  Permutation other;
  other.set_size(n);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    other.keys_[i] = keys_[i] ^ mix(tweak * keys_.size() + i + kStep);
  }
  return other;
}

std::uint64_t Permutation::permute_once(std::uint64_t value) const noexcept {
  unsigned left_bits = left_bits_;
  unsigned right_bits = right_bits_;
  std::uint64_t left = value >> right_bits;
  std::uint64_t right = value & mask(right_bits);
  for (const std::uint64_t key : keys_) {
    const std::uint64_t mixed = (left ^ mix(right ^ key)) & mask(left_bits);
    left = std::exchange(right, mixed);
    std::swap(left_bits, right_bits);
  }
  return left << right_bits | right;
}

/// The rounds of `permute_once` backwards. After an even number of rounds the halves have their
/// first widths again.
std::uint64_t Permutation::restore_once(std::uint64_t value) const noexcept {
  static_assert(kRounds % 2 == 0);
  unsigned left_bits = left_bits_;
  unsigned right_bits = right_bits_;
  std::uint64_t left = value >> right_bits;
  std::uint64_t right = value & mask(right_bits);
  for (auto key = keys_.rbegin(); key != keys_.rend(); ++key) {
    std::swap(left_bits, right_bits);
    const std::uint64_t before = (right ^ mix(left ^ *key)) & mask(left_bits);
    right = std::exchange(left, before);
  }
  return left << right_bits | right;
}

std::uint64_t Permutation::operator()(std::uint64_t position) const noexcept {
  do {
    position = permute_once(position);
  } while (position >= n_);
  return position;
}

std::uint64_t Permutation::inverse(std::uint64_t value) const noexcept {
  do {
    value = restore_once(value);
  } while (value >= n_);
  return value;
}

}  // namespace feedrace::order
