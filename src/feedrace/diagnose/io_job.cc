// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/io_job.h"

#include <algorithm>
#include <bit>

namespace feedrace::diagnose {
namespace {

/// The finalizer of splitmix64: every bit of the input moves every bit of the output.
std::uint64_t mixed(std::uint64_t x) noexcept {
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

}  // namespace

std::uint64_t IoJob::block_count() const noexcept {
  std::uint64_t count = 0;
  for (const IoFile& file : files) count += file.block_count;
  return count;
}

BlockOrder::BlockOrder(const IoJob& job)
    : block_bytes_(job.block_bytes), seed_(job.seed), is_random_(job.is_random) {
  std::uint64_t end = 0;
  for (const IoFile& file : job.files) ends_.push_back(end += file.block_count);
  half_bits_ = (static_cast<unsigned>(std::bit_width(end)) + 1) / 2;
}

Block BlockOrder::at(std::uint64_t position) const noexcept {
  const std::uint64_t index = position % block_count();
  const std::uint64_t block = is_random_ ? shuffled(index, position / block_count()) : index;
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), block);
  const std::uint64_t first = end == ends_.begin() ? 0 : *(end - 1);
  return {static_cast<std::size_t>(end - ends_.begin()), (block - first) * block_bytes_};
}

/// A Feistel network permutes the smallest power of four that holds all blocks; what falls behind
/// the last block is permuted again, until it falls before it (cycle walking).
std::uint64_t BlockOrder::shuffled(std::uint64_t index, std::uint64_t pass) const noexcept {
  constexpr std::uint64_t kRounds = 4;
  const std::uint64_t key = mixed(seed_ + mixed(pass));
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = index >> half_bits_;
    std::uint64_t right = index & mask;
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t next = left ^ (mixed(right ^ (key + round)) & mask);
      left = right;
      right = next;
    }
    index = (left << half_bits_) | right;
  } while (index >= block_count());
  return index;
}

}  // namespace feedrace::diagnose
