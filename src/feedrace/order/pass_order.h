// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "feedrace/order.h"
#include "feedrace/order/permutation.h"

namespace feedrace::order {

struct ShuffleOptions {
  Shuffle shuffle = Shuffle::kGlobal;
  std::uint64_t chunk_samples = kDefaultShuffleChunk;    ///< At least 1.
  std::uint64_t window_samples = kDefaultShuffleWindow;  ///< At least 1; whole chunks are used.
  std::uint64_t seed = 0;
};

/// The order of one pass over a set of n members: a permutation of [0, n), a pure function of
/// (options, set, pass). O(1) time and memory; immutable, thread-safe.
///
/// A window is a stretch of the pass in which the samples of some chunks are mixed. The chunks are
/// neighbours in the stored order and come in random order, so that a reader that goes through a
/// window needs few, long reads. Chunks do not heed the borders of shards: the order depends on
/// numbers alone, not on how samples are laid out.
class PassOrder {
 public:
  /// `set` tells sets apart that share a seed.
  PassOrder(const ShuffleOptions& options, std::uint64_t n, std::uint32_t set, std::uint64_t pass);

  std::uint64_t pass() const noexcept { return pass_; }
  /// The member at `place`, which is below n.
  std::uint64_t operator()(std::uint64_t place) const noexcept;

 private:
  std::uint64_t in_window(std::uint64_t place) const noexcept;
  std::uint64_t in_chunk(std::uint64_t place) const noexcept;

  std::uint64_t n_;
  std::uint64_t pass_;
  std::uint64_t chunk_samples_ = 0;
  std::uint64_t window_samples_ = 0;
  std::uint64_t tail_samples_ = 0;     // Of the last chunk in the stored order.
  std::uint64_t tail_slot_ = 0;        // Where that one comes in the pass.
  std::optional<Permutation> order_;   // Of members (global) or of chunks (window).
  std::optional<Permutation> window_;  // Tweaked for each window.
};

}  // namespace feedrace::order
