// SPDX-License-Identifier: Apache-2.0
#include "feedrace/random.h"

namespace feedrace {

std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) noexcept {
  // Multipliers, key increments (golden ratio, sqrt(3) - 1) and ten rounds: Salmon et al., table 2.
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
  constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = kMultiplier0 * counter[0];
    const std::uint64_t product1 = kMultiplier1 * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

namespace {
std::uint32_t low(std::uint64_t v) { return static_cast<std::uint32_t>(v); }
std::uint32_t high(std::uint64_t v) { return static_cast<std::uint32_t>(v >> 32); }
}  // namespace

SampleRandom::SampleRandom(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample,
                           std::uint32_t op) noexcept
    : counter_{low(sample), high(sample), 0, op} {
  const auto derived = philox({low(epoch), high(epoch), 0, 0}, {low(seed), high(seed)});
  key_ = {derived[0], derived[1]};
}

std::uint32_t SampleRandom::next() noexcept {
  if (used_ == block_.size()) {
    block_ = philox(counter_, key_);
    ++counter_[2];
    used_ = 0;
  }
  return block_[used_++];
}

double SampleRandom::uniform() noexcept {
  const std::uint64_t upper = next();
  const std::uint64_t bits = (upper << 32 | next()) >> 11;
  return static_cast<double>(bits) * 0x1.0p-53;
}

std::uint64_t SampleRandom::below(std::uint64_t bound) noexcept {
  // Values under 2^64 mod bound would make the low results likelier; they are drawn again.
  const std::uint64_t rejected = (0 - bound) % bound;
  while (true) {
    const std::uint64_t upper = next();
    const std::uint64_t value = upper << 32 | next();
    if (value >= rejected) return value % bound;
  }
}

}  // namespace feedrace
