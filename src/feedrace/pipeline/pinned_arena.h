// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/core/piece_cutter.h"
#include "feedrace/pipeline/ragged_memory.h"

namespace feedrace {

/// Pins memory of the host for a device, for as long as the result lives; null where it can't be,
/// and copies from it wait then.
using PinMemory = std::function<std::shared_ptr<const void>(std::span<std::byte>)>;

/// Pinned memory for what differs in size from picture to picture. Pieces are cut from blocks that
/// are kept from batch to batch, as pinning takes longer than filling them. Thread-safe, but for
/// `clear`.
class PinnedArena {
 public:
  /// Of a block, unless one piece is larger. One huge page: pinning it is one entry of a table.
  static constexpr std::size_t kBlockBytes = std::size_t{2} << 20;

  /// `pin` may be empty.
  PinnedArena(std::shared_ptr<RaggedMemory> memory, PinMemory pin);
  ~PinnedArena();
  PinnedArena(const PinnedArena&) = delete;
  PinnedArena& operator=(const PinnedArena&) = delete;

  /// Gives up all pieces; the blocks stay. Nobody takes meanwhile.
  void clear() noexcept;
  /// A piece of `bytes`, more than 0, until `clear`. Empty when the memory limit is reached. Throws
  /// std::bad_alloc.
  std::span<std::byte> try_take(std::size_t bytes);

 private:
  struct Block {
    HostMemory memory;
    std::shared_ptr<const void> pinned;  // Behind it, so that it goes before.
  };

  bool add_block(std::size_t bytes);

  const std::shared_ptr<RaggedMemory> memory_;
  const PinMemory pin_;
  std::mutex mutex_;
  std::vector<Block> blocks_;  // Guarded by mutex_.
  PieceCutter cutter_;         // Guarded by mutex_.
};

}  // namespace feedrace
