// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace feedrace {

/// Which of `world_size` processes this one is.
struct World {
  std::uint64_t rank = 0;  ///< In [0, size).
  std::uint64_t size = 1;
  std::string source;  ///< Where it was learnt: "arguments", "RANK and WORLD_SIZE (torchrun)".
};

/// Compares what must be the same on every rank: version, seed, data and settings when the loader
/// is made, and the position at the first `next()` behind that or behind `load_state`, so that a
/// rank that loaded no state, or another one, is found. Waits for the others. Give one of the two
/// ways; every rank must.
struct RankCheck {
  /// A folder that all ranks can write to; made if it is not there. Files of earlier runs in it do
  /// no harm. Two jobs at a time need two folders.
  std::string folder;
  /// Gives every rank's text to every rank, by rank, as MPI_Allgather or
  /// torch.distributed.all_gather_object do. Called on the thread that makes the loader or calls
  /// `next()`.
  std::function<std::vector<std::string>(const std::string& text)> all_gather;
  /// How long the others may take to come, in seconds.
  double timeout_seconds = 300;
};

}  // namespace feedrace
