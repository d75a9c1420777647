// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace feedrace::diagnose {

/// A file of which a benchmark reads the first `block_count` whole blocks.
struct IoFile {
  std::string path;
  std::uint64_t block_count = 0;
};

/// What every row of the table reads, and how much at a time.
struct IoJob {
  static constexpr std::size_t kMinBlockBytes = 512;

  std::vector<IoFile> files;
  std::size_t block_bytes = std::size_t{256} << 10;  ///< A multiple of 512.
  std::size_t queue_depth = 32;                      ///< Reads in flight, 1 to 4096.
  std::size_t thread_count = 8;  ///< Of the paths that block; no more than `queue_depth`.
  bool is_random = true;         ///< Else from front to end.
  double seconds = 2;            ///< A row.
  std::uint64_t seed = 1;        ///< Of the random order.

  std::uint64_t block_count() const noexcept;
  std::uint64_t size_bytes() const noexcept { return block_count() * block_bytes; }
};

/// A block of `IoJob::files[file]`.
struct Block {
  std::size_t file = 0;
  std::uint64_t offset_bytes = 0;
};

/// The order in which blocks are read: passes over all blocks, each block once a pass, at random in
/// another order each time or from front to end. Holds no position: threads share it.
class BlockOrder {
 public:
  /// The job has at least one block.
  explicit BlockOrder(const IoJob& job);

  Block at(std::uint64_t position) const noexcept;
  /// Of a pass.
  std::uint64_t block_count() const noexcept { return ends_.back(); }

 private:
  std::uint64_t shuffled(std::uint64_t index, std::uint64_t pass) const noexcept;

  std::vector<std::uint64_t> ends_;  // Blocks up to the end of each file.
  std::uint64_t block_bytes_;
  std::uint64_t seed_;
  bool is_random_;
  unsigned half_bits_ = 1;
};

}  // namespace feedrace::diagnose
