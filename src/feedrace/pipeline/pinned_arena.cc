// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/pinned_arena.h"

#include <algorithm>
#include <utility>

#include "feedrace/core/alignment.h"

namespace feedrace {
PinnedArena::PinnedArena(std::shared_ptr<RaggedMemory> memory, PinMemory pin)
    : memory_(std::move(memory)), pin_(std::move(pin)) {}

PinnedArena::~PinnedArena() {
  for (const Block& block : blocks_) memory_->remove(block.memory.size_bytes());
}

void PinnedArena::clear() noexcept {
  const std::lock_guard lock(mutex_);
  cutter_.clear();
}

std::span<std::byte> PinnedArena::try_take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto piece = cutter_.try_take(bytes);
  if (!piece && !add_block(bytes)) return {};
  if (!piece) piece = cutter_.try_take(bytes);
  return blocks_[piece->block].memory.bytes().subspan(piece->at_bytes, bytes);
}

bool PinnedArena::add_block(std::size_t bytes) {
  const auto whole =
      static_cast<std::size_t>(round_up(std::max(bytes, kBlockBytes), HostMemory::kPageBytes));
  HostMemory memory(whole);
  blocks_.reserve(blocks_.size() + 1);
  if (!memory_->try_add(whole)) return false;
  Block& block = blocks_.emplace_back();
  block.memory = std::move(memory);
  if (pin_) block.pinned = pin_(block.memory.bytes());
  cutter_.add_block(whole);
  return true;
}

}  // namespace feedrace
