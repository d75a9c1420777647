// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/device_slots.h"

#include <utility>

#include "feedrace/core/alignment.h"
#include "feedrace/diagnose/io_run.h"

namespace feedrace::diagnose {
namespace {

constexpr std::size_t kDevicePageBytes = std::size_t{64} << 10;  // What cuFile registers.

}  // namespace

DeviceSlots::DeviceSlots(std::shared_ptr<cuda::Device> device, const IoJob& job, std::size_t count)
    : device_(std::move(device)),
      job_(job),
      memory_(device_,
              static_cast<std::size_t>(round_up(count * job.block_bytes, kDevicePageBytes))),
      held_(count),
      bytes_(job.block_bytes),
      came_back_(device_),
      stream_(device_) {}

Result<void> DeviceSlots::compare(std::size_t slot) {
  const Block& block = *held_[slot];
  stream_.copy_to_host(bytes_.data(), address(slot), bytes_.size());
  came_back_.record(stream_.handle());
  came_back_.wait();
  return compare_with_pread(job_.files[block.file].path, block.offset_bytes, bytes_);
}

Result<void> DeviceSlots::compare_all() {
  for (std::size_t slot = 0; slot < held_.size(); ++slot) {
    if (!held_[slot]) continue;
    if (auto equal = compare(slot); !equal) return equal;
  }
  return {};
}

}  // namespace feedrace::diagnose
