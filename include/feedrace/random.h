// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

namespace feedrace {

/// Philox 4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): 128
/// random bits as a pure function of a 128-bit counter and a 64-bit key.
std::array<std::uint32_t, 4> philox(std::array<std::uint32_t, 4> counter,
                                    std::array<std::uint32_t, 2> key) noexcept;

/// The random numbers of one op on one sample: a function of (seed, epoch, sample, op, how many
/// were drawn before), never of threads, ranks or batches. Not thread-safe; cheap to make.
class SampleRandom {
 public:
  /// `op` numbers the op in its pipeline, so that two ops draw independent numbers.
  SampleRandom(std::uint64_t seed, std::uint64_t epoch, std::uint64_t sample,
               std::uint32_t op) noexcept;

  /// Uniform in [0, 2^32).
  std::uint32_t next() noexcept;
  /// Uniform in [0, 1), 53 bits.
  double uniform() noexcept;
  double uniform(double low, double high) noexcept { return low + (high - low) * uniform(); }
  /// Uniform in [0, bound), without bias; `bound` is at least 1.
  std::uint64_t below(std::uint64_t bound) noexcept;

 private:
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> block_{};
  std::uint32_t used_ = 4;
};

}  // namespace feedrace
