// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/cuda/direct_backend.h"
#include "feedrace/storage/fallback_log.h"

namespace feedrace::pipeline {

/// Copies of what cuFile has read into a device's memory. One instance serves one thread. All throw
/// Error when the device fails.
class DirectCopies {
 public:
  /// `read_into`: where cuFile reads. What can't be pinned is counted in `log`.
  DirectCopies(std::shared_ptr<const cuda::DirectMemory> read_into, storage::FallbackLog& log);

  const std::shared_ptr<cuda::Device>& device() const noexcept {
    return read_into_->direct()->device();
  }
  /// Whether it lies on the device: the CPU must not look at it.
  bool holds(std::span<const std::byte> sample) const noexcept { return read_into_->holds(sample); }

  /// Brings bytes to the host, until the next call.
  std::span<const std::byte> fetch(std::span<const std::byte> on_device);
  std::span<const std::byte> fetch(std::uint64_t address, std::size_t bytes);

  /// For copies of other kinds: none of it is waited for until `finish`.
  cuda::Stream& stream();
  void finish();

 private:
  void make_room(std::size_t bytes);

  const std::shared_ptr<const cuda::DirectMemory> read_into_;
  storage::FallbackLog& log_;
  HostMemory fetched_;
  std::shared_ptr<const cuda::PinnedRange> pinned_;
  std::unique_ptr<cuda::Stream> stream_;
  cuda::Event done_;
};

}  // namespace feedrace::pipeline
