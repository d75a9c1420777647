// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "feedrace/core/piece_cutter.h"
#include "feedrace/cuda/plugin_loader.h"

namespace feedrace::cuda {

/// Device memory in pieces, cut from blocks that are kept, as allocating waits for the device.
/// Thread-safe, but for `clear`.
class DeviceArena {
 public:
  explicit DeviceArena(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  /// Gives up all pieces; the blocks stay. The device is done with them.
  void clear() noexcept;
  /// The address of a piece of `bytes`, more than 0, until `clear`. Throws DeviceMemoryError.
  std::uint64_t take(std::size_t bytes);

 private:
  const std::shared_ptr<Device> device_;
  std::mutex mutex_;
  std::vector<DeviceMemory> blocks_;  // Guarded by mutex_.
  PieceCutter cutter_;                // Guarded by mutex_.
};

}  // namespace feedrace::cuda
