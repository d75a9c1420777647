// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "feedrace/cuda/plugin_loader.h"
#include "feedrace/diagnose/io_job.h"
#include "feedrace/error.h"

namespace feedrace::diagnose {

/// Places for blocks in a GPU's memory, and which block of the job lies in each. Different slots
/// may be used by different threads.
class DeviceSlots {
 public:
  /// Throws Error when the memory is not to be had.
  DeviceSlots(std::shared_ptr<cuda::Device> device, const IoJob& job, std::size_t count);

  const std::shared_ptr<cuda::Device>& device() const noexcept { return device_; }
  const cuda::DeviceMemory& memory() const noexcept { return memory_; }
  std::size_t count() const noexcept { return held_.size(); }
  std::size_t offset_bytes(std::size_t slot) const noexcept { return slot * job_.block_bytes; }
  std::uint64_t address(std::size_t slot) const noexcept {
    return memory_.address() + offset_bytes(slot);
  }

  /// What is about to be put there.
  void hold(std::size_t slot, const Block& block) noexcept { held_[slot] = block; }
  /// Copies a slot back to the host and compares it with what pread gives of its block. Throws
  /// Error when the device fails. Failures: kCorruptData, kIo.
  Result<void> compare(std::size_t slot);
  /// The same of all slots that hold a block.
  Result<void> compare_all();

 private:
  const std::shared_ptr<cuda::Device> device_;
  const IoJob job_;
  const cuda::DeviceMemory memory_;  // Whole pages of the device.
  std::vector<std::optional<Block>> held_;
  std::vector<std::byte> bytes_;  // That came back.
  cuda::Event came_back_;
  cuda::Stream stream_;  // Last: nothing is copied into `bytes_` behind its end.
};

}  // namespace feedrace::diagnose
