// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/decoder_memory.h"

#include <cstdlib>

#include <fmt/format.h>

namespace feedrace::cuda_plugin {
namespace {

constexpr std::size_t kPageBytes = 4096;

// What nvJPEG is told: it looks for 0 only, and both kinds of error mean the same to it.
constexpr int kDone = cudaSuccess;
constexpr int kRefused = cudaErrorMemoryAllocation;

}  // namespace

DecoderMemory::DecoderMemory(const feedrace_cuda_device& device)
    : device_(device),
      device_calls_{allocate_device, release_device, this},
      pinned_calls_{allocate_pinned, release_pinned, this} {}

std::string DecoderMemory::describe() const {
  const std::lock_guard lock(mutex_);
  std::size_t device_bytes = 0;
  std::size_t pinned_bytes = 0;
  for (const auto& [address, block] : blocks_) {
    (block.is_device ? device_bytes : pinned_bytes) += block.bytes;
  }
  std::string text = fmt::format("the decoder holds {} bytes of {} and {} pinned", device_bytes,
                                 device_.name, pinned_bytes);
  if (refusal_ != CUDA_SUCCESS) {
    text += fmt::format(", and {} bytes more were refused with error {}", refused_bytes_,
                        static_cast<int>(refusal_));
  }
  return text;
}

int DecoderMemory::allocate_device(void* self, void** address, std::size_t bytes, cudaStream_t) {
  auto& memory = *static_cast<DecoderMemory*>(self);
  const CUresult result = memory.device_block(bytes, address);
  const int code = memory.keep(result, *address, bytes, true);
  if (code != kDone && result == CUDA_SUCCESS) {
    memory.device_.driver.cuMemFree(reinterpret_cast<CUdeviceptr>(*address));
  }
  return code;
}

int DecoderMemory::allocate_pinned(void* self, void** address, std::size_t bytes, cudaStream_t) {
  auto& memory = *static_cast<DecoderMemory*>(self);
  const CUresult result = memory.pinned_block(bytes, address);
  const int code = memory.keep(result, *address, bytes, false);
  if (code != kDone && result == CUDA_SUCCESS) {
    memory.device_.driver.cuMemHostUnregister(*address);
    std::free(*address);
  }
  return code;
}

// cuMemFree waits for the work that may still use the block.
int DecoderMemory::release_device(void* self, void* address, std::size_t, cudaStream_t) {
  if (address == nullptr) return kDone;
  auto& memory = *static_cast<DecoderMemory*>(self);
  if (!memory.forget(address)) return kRefused;
  return memory.device_.driver.cuMemFree(reinterpret_cast<CUdeviceptr>(address)) == CUDA_SUCCESS
             ? kDone
             : kRefused;
}

int DecoderMemory::release_pinned(void* self, void* address, std::size_t, cudaStream_t) {
  if (address == nullptr) return kDone;
  auto& memory = *static_cast<DecoderMemory*>(self);
  if (!memory.forget(address)) return kRefused;
  // Memory that stays pinned must not go back to the heap.
  if (memory.device_.driver.cuMemHostUnregister(address) != CUDA_SUCCESS) return kRefused;
  std::free(address);
  return kDone;
}

CUresult DecoderMemory::device_block(std::size_t bytes, void** address) {
  *address = nullptr;
  CUdeviceptr given = 0;
  const CUresult result = device_.driver.cuMemAlloc(&given, bytes == 0 ? 1 : bytes);
  if (result == CUDA_SUCCESS) *address = reinterpret_cast<void*>(given);
  return result;
}

CUresult DecoderMemory::pinned_block(std::size_t bytes, void** address) {
  *address = nullptr;
  const std::size_t whole_bytes = (bytes / kPageBytes + 1) * kPageBytes;
  void* const made = std::aligned_alloc(kPageBytes, whole_bytes);
  if (made == nullptr) return CUDA_ERROR_OUT_OF_MEMORY;
  const CUresult result =
      device_.driver.cuMemHostRegister(made, whole_bytes, CU_MEMHOSTREGISTER_PORTABLE);
  if (result == CUDA_SUCCESS) {
    *address = made;
  } else {
    std::free(made);
  }
  return result;
}

int DecoderMemory::keep(CUresult result, void* address, std::size_t bytes,
                        bool is_device) noexcept {
  const std::lock_guard lock(mutex_);
  if (result != CUDA_SUCCESS) {
    refused_bytes_ = bytes;
    refusal_ = result;
    return kRefused;
  }
  try {
    blocks_.emplace(address, Block{bytes, is_device});
  } catch (const std::bad_alloc&) {
    return kRefused;
  }
  return kDone;
}

bool DecoderMemory::forget(void* address) noexcept {
  const std::lock_guard lock(mutex_);
  return blocks_.erase(address) > 0;
}

}  // namespace feedrace::cuda_plugin
