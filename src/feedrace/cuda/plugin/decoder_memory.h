// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nvjpeg.h>

#include <cstddef>
#include <mutex>
#include <string>
#include <unordered_map>

#include "feedrace/cuda/plugin/handles.h"

namespace feedrace::cuda_plugin {

/// The memory of one decoder: nvJPEG asks here instead of at a CUDA runtime of its own, so that it
/// is counted and lies in the device's primary context.
class DecoderMemory {
 public:
  explicit DecoderMemory(const feedrace_cuda_device& device);
  DecoderMemory(const DecoderMemory&) = delete;
  DecoderMemory& operator=(const DecoderMemory&) = delete;

  /// What nvJPEG is given; they live as long as this.
  nvjpegDevAllocatorV2_t* device_calls() noexcept { return &device_calls_; }
  nvjpegPinnedAllocatorV2_t* pinned_calls() noexcept { return &pinned_calls_; }

  /// For messages: what is held, and what was refused last.
  std::string describe() const;

 private:
  static int allocate_device(void* self, void** address, std::size_t bytes, cudaStream_t stream);
  static int release_device(void* self, void* address, std::size_t bytes, cudaStream_t stream);
  static int allocate_pinned(void* self, void** address, std::size_t bytes, cudaStream_t stream);
  static int release_pinned(void* self, void* address, std::size_t bytes, cudaStream_t stream);

  CUresult device_block(std::size_t bytes, void** address);
  CUresult pinned_block(std::size_t bytes, void** address);
  int keep(CUresult result, void* address, std::size_t bytes, bool is_device) noexcept;
  bool forget(void* address) noexcept;

  const feedrace_cuda_device& device_;
  nvjpegDevAllocatorV2_t device_calls_;
  nvjpegPinnedAllocatorV2_t pinned_calls_;

  struct Block {
    std::size_t bytes;
    bool is_device;
  };
  mutable std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;  // Guarded by mutex_.
  std::size_t refused_bytes_ = 0;            // Guarded by mutex_.
  CUresult refusal_ = CUDA_SUCCESS;          // Guarded by mutex_.
};

}  // namespace feedrace::cuda_plugin
