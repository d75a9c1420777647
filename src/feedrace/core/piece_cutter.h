// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "feedrace/core/alignment.h"

namespace feedrace {

/// Cuts pieces from blocks of any memory, one behind the other: an arena's arithmetic. Each begins
/// at a multiple of a cache line, so that threads that fill neighbours do not disturb each other.
class PieceCutter {
 public:
  static constexpr std::size_t kAlignment = 64;

  struct Piece {
    std::size_t block = 0;  ///< In the order of `add_block`.
    std::size_t at_bytes = 0;
  };

  /// Nothing when no block has room: add one of at least `bytes`.
  std::optional<Piece> try_take(std::size_t bytes) {
    for (; block_ < sizes_.size(); ++block_, at_bytes_ = 0) {
      if (at_bytes_ + bytes > sizes_[block_]) continue;
      const Piece piece{block_, at_bytes_};
      at_bytes_ = static_cast<std::size_t>(round_up(at_bytes_ + bytes, kAlignment));
      return piece;
    }
    return std::nullopt;
  }
  void add_block(std::size_t bytes) { sizes_.push_back(bytes); }
  /// All pieces are given up; the blocks stay.
  void clear() noexcept {
    block_ = 0;
    at_bytes_ = 0;
  }

 private:
  std::vector<std::size_t> sizes_;
  std::size_t block_ = 0;  // Pieces come from this one.
  std::size_t at_bytes_ = 0;
};

}  // namespace feedrace
