// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "feedrace/cuda/plugin/handles.h"

namespace feedrace::cuda_plugin {
namespace {

struct Meaning {
  feedrace_cuda_status status;
  const char* remedy;
};

Meaning meaning_of(CUresult result) {
  switch (result) {
    case CUDA_ERROR_OUT_OF_MEMORY:
      return {FEEDRACE_CUDA_NO_MEMORY,
              "free memory of the device, or lower prefetch_factor or batch_size"};
    case CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED:
    case CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED:
      return {FEEDRACE_CUDA_INVALID, "pin each range of memory once"};
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return {FEEDRACE_CUDA_LOST,
              "the device's context is lost to this process, by this or earlier work of any "
              "library in it; see dmesg for Xid, and start the process again"};
    case CUDA_ERROR_NO_DEVICE:
    case CUDA_ERROR_INVALID_DEVICE:
    case CUDA_ERROR_NOT_SUPPORTED:
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return {FEEDRACE_CUDA_UNSUPPORTED, "see what `feedrace gpu-info` says"};
    case CUDA_ERROR_INVALID_IMAGE:
    case CUDA_ERROR_NO_BINARY_FOR_GPU:
    case CUDA_ERROR_UNSUPPORTED_PTX_VERSION:
      return {FEEDRACE_CUDA_UNSUPPORTED, "install a newer driver, or a feedrace-cuda for this one"};
    default:
      return {FEEDRACE_CUDA_INVALID, "please report it with what `feedrace gpu-info` says"};
  }
}

}  // namespace

void check(const Driver& driver, CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return;
  const char* text = nullptr;
  const bool has_text = driver.cuGetErrorString(result, &text) == CUDA_SUCCESS && text != nullptr;
  const Meaning meaning = meaning_of(result);
  throw Refusal(meaning.status,
                fmt::format("{}: error {} ({}); {}", what, static_cast<int>(result),
                            has_text ? text : "unknown to this driver", meaning.remedy));
}

void fill(feedrace_cuda_error* error, const char* message) noexcept {
  if (error == nullptr) return;
  const std::size_t bytes = std::min(std::strlen(message), sizeof(error->message) - 1);
  std::memcpy(error->message, message, bytes);
  error->message[bytes] = '\0';
}

void give_text(const std::string& text, char* out, std::size_t capacity,
               std::size_t* needed_bytes) noexcept {
  if (needed_bytes != nullptr) *needed_bytes = text.size() + 1;
  if (capacity == 0) return;
  const std::size_t bytes = std::min(text.size(), capacity - 1);
  std::memcpy(out, text.data(), bytes);
  out[bytes] = '\0';
}

}  // namespace feedrace::cuda_plugin
