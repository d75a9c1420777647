// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace feedrace::order {

/// A keyed permutation of [0, n): computed, not stored, so that any position of any epoch costs the
/// same, whatever n is.
///
/// An unbalanced Feistel network over the smallest power of two that holds n (at least 2^12), whose
/// outputs outside [0, n) are fed in again until they fall inside ("cycle walking": Black and
/// Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). Immutable, thread-safe.
class Permutation {
 public:
  /// `n` from 1 to 2^63. Different (seed, epoch, stream) give independent permutations.
  Permutation(std::uint64_t n, std::uint64_t seed, std::uint64_t epoch,
              std::uint32_t stream = kOrderStream) noexcept;

  /// Keeps the order's draws apart from those of ops, which use the same seed.
  static constexpr std::uint32_t kOrderStream = 0x6f726465;

  /// Another permutation, of [0, n), for each `tweak`: far cheaper than one made from a seed.
  Permutation tweaked(std::uint64_t n, std::uint64_t tweak) const noexcept;

  std::uint64_t size() const noexcept { return n_; }
  /// The image of `position`, which is below n.
  std::uint64_t operator()(std::uint64_t position) const noexcept;
  /// The position whose image is `value`, which is below n.
  std::uint64_t inverse(std::uint64_t value) const noexcept;

 private:
  // Eight rounds: four already make a pseudo-random permutation of a good round function (Luby and
  // Rackoff, 1988); ours is a plain multiply-xorshift, so twice as many.
  static constexpr int kRounds = 8;

  Permutation() = default;
  void set_size(std::uint64_t n) noexcept;
  std::uint64_t permute_once(std::uint64_t value) const noexcept;
  std::uint64_t restore_once(std::uint64_t value) const noexcept;

  std::uint64_t n_ = 0;
  unsigned left_bits_ = 0;
  unsigned right_bits_ = 0;
  std::array<std::uint64_t, kRounds> keys_{};
};

}  // namespace feedrace::order
