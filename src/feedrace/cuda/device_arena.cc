// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/device_arena.h"

#include <algorithm>

namespace feedrace::cuda {
namespace {

// The driver maps device memory in pages of this size.
constexpr std::size_t kBlockBytes = std::size_t{2} << 20;

}  // namespace

void DeviceArena::clear() noexcept {
  const std::lock_guard lock(mutex_);
  cutter_.clear();
}

std::uint64_t DeviceArena::take(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto piece = cutter_.try_take(bytes);
  if (!piece) {
    blocks_.emplace_back(device_, std::max(bytes, kBlockBytes));
    cutter_.add_block(blocks_.back().size_bytes());
    piece = cutter_.try_take(bytes);
  }
  return blocks_[piece->block].address() + piece->at_bytes;
}

}  // namespace feedrace::cuda
