// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "feedrace/cuda/plugin/handles.h"

// The kernels for all devices, put into the plug-in by cmake/cuda.cmake.
// NOLINTNEXTLINE(readability-identifier-naming): a symbol of the assembler's.
extern "C" const unsigned char feedrace_cuda_kernels_begin[];

namespace feedrace::cuda_plugin {
namespace {

/// Of the oldest device that the kernels are built for.
constexpr int kOldestCompute = 80;

std::string version_text(int version) {
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

void require_driver(const feedrace_cuda_device& device) {
  if (device.driver.version >= CUDA_VERSION) return;
  throw Refusal(FEEDRACE_CUDA_UNSUPPORTED,
                fmt::format("{}: the driver is for CUDA {}, the kernels are built for CUDA {}; "
                            "install a newer driver, or a feedrace-cuda for CUDA {}",
                            device.name, version_text(device.driver.version),
                            version_text(CUDA_VERSION), version_text(device.driver.version)));
}

int attribute(const feedrace_cuda_device& device, CUdevice_attribute which, const char* name) {
  int value = 0;
  check(device.driver, device.driver.cuDeviceGetAttribute(&value, which, device.device),
        fmt::format("{}: cuDeviceGetAttribute of {}", device.name, name));
  return value;
}

void require_compute(const feedrace_cuda_device& device) {
  const int major =
      attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, "the compute capability");
  const int minor =
      attribute(device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, "the compute capability");
  if (major * 10 + minor >= kOldestCompute) return;
  throw Refusal(FEEDRACE_CUDA_UNSUPPORTED,
                fmt::format("{}: compute capability {}.{}, the kernels need {}.{}; use an A100 or "
                            "newer, or device=\"cpu\"",
                            device.name, major, minor, kOldestCompute / 10, kOldestCompute % 10));
}

}  // namespace

CUfunction kernel(feedrace_cuda_device& device, const char* name) {
  const std::lock_guard lock(device.mutex);
  if (device.kernels == nullptr) {
    require_driver(device);
    require_compute(device);
    CUmodule loaded = nullptr;
    check(device.driver, device.driver.cuModuleLoadData(&loaded, feedrace_cuda_kernels_begin),
          fmt::format("{}: cuModuleLoadData of the kernels", device.name));
    device.kernels = loaded;
  }
  CUfunction function = nullptr;
  check(device.driver, device.driver.cuModuleGetFunction(&function, device.kernels, name),
        fmt::format("{}: cuModuleGetFunction of {}", device.name, name));
  return function;
}

}  // namespace feedrace::cuda_plugin
