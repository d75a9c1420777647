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

// Keeps the order's draws apart from those of ops, which use the same seed.
constexpr std::uint32_t kOrderStream = 0x6f726465;

}  // namespace

Permutation::Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch) noexcept
    : n_(n), keys_{} {
  const auto needed = static_cast<unsigned>(std::bit_width(n - 1));
  const unsigned bits = std::max(kMinDomainBits, needed);
  left_bits_ = bits / 2;
  right_bits_ = bits - left_bits_;
  SampleRandom random(seed, epoch, n, kOrderStream);
  for (std::uint64_t& key : keys_) {
    const std::uint64_t high = random.next();
    key = high << 32 | random.next();
  }
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

std::uint64_t Permutation::operator()(std::uint64_t position) const noexcept {
  do {
    position = permute_once(position);
  } while (position >= n_);
  return position;
}

}  // namespace feedrace::order
