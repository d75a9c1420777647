// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "feedrace/cuda/plugin/handles.h"

using feedrace::cuda_plugin::check;
using feedrace::cuda_plugin::Current;
using feedrace::cuda_plugin::Refusal;

feedrace_cuda_device::feedrace_cuda_device(const feedrace_cuda_runtime& opened, int number)
    : runtime(opened), driver(opened.driver), ordinal(number) {
  if (!driver.missing.empty()) throw Refusal(FEEDRACE_CUDA_UNSUPPORTED, driver.refusal());
  int count = 0;
  check(driver, driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (number < 0 || number >= count) {
    throw Refusal(FEEDRACE_CUDA_UNSUPPORTED,
                  fmt::format("there is no GPU {}: this process sees {}{}; take one of those, or "
                              "look at CUDA_VISIBLE_DEVICES",
                              number, count, count > 0 ? ", counted from 0" : ""));
  }
  check(driver, driver.cuDeviceGet(&device, number), fmt::format("cuDeviceGet of GPU {}", number));
  char text[128] = "";
  driver.cuDeviceGetName(text, sizeof(text), device);
  text[sizeof(text) - 1] = '\0';
  name = fmt::format("GPU {} ({})", number, text);
  check(driver, driver.cuDevicePrimaryCtxRetain(&context, device),
        "cuDevicePrimaryCtxRetain of " + name);
}

feedrace_cuda_device::~feedrace_cuda_device() {
  if (context == nullptr) return;
  if (driver.cuCtxPushCurrent(context) == CUDA_SUCCESS) {
    for (const auto& [aligned, given] : allocations) driver.cuMemFree(given);
    if (kernels != nullptr) driver.cuModuleUnload(kernels);
    driver.cuCtxPopCurrent(nullptr);
  }
  driver.cuDevicePrimaryCtxRelease(device);
}

namespace feedrace::cuda_plugin {
namespace {

// cuFile registers whole pages of this size; the driver aligns to 256 bytes only.
constexpr CUdeviceptr kPageBytes = 64 * 1024;

int open_device(feedrace_cuda_runtime* runtime, std::int32_t ordinal, feedrace_cuda_device** device,
                feedrace_cuda_error* error) {
  return guarded(error, [&] { *device = new feedrace_cuda_device(*runtime, ordinal); });
}

void close_device(feedrace_cuda_device* device) { delete device; }

int memory_facts(feedrace_cuda_device* device, std::uint64_t* free_bytes,
                 std::uint64_t* total_bytes, feedrace_cuda_error* error) {
  return guarded(error, [&] {
    const Current current(*device);
    std::size_t free_now = 0;
    std::size_t total = 0;
    check(device->driver, device->driver.cuMemGetInfo(&free_now, &total),
          "cuMemGetInfo of " + device->name);
    *free_bytes = free_now;
    *total_bytes = total;
  });
}

std::int32_t host_node(const feedrace_cuda_device* device) {
  int node = -1;
  const CUresult result =
      device->driver.cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, device->device);
  return result == CUDA_SUCCESS ? node : -1;
}

int allocate(feedrace_cuda_device* device, std::size_t bytes, std::uint64_t* address,
             feedrace_cuda_error* error) {
  return guarded(error, [&] {
    if (bytes == 0) throw Refusal(FEEDRACE_CUDA_INVALID, "allocate: 0 bytes; give a size");
    const Current current(*device);
    CUdeviceptr given = 0;
    const Driver& driver = device->driver;
    if (const CUresult result = driver.cuMemAlloc(&given, bytes + kPageBytes - 1);
        result != CUDA_SUCCESS) {
      std::size_t free_now = 0;
      std::size_t total = 0;
      driver.cuMemGetInfo(&free_now, &total);
      check(driver, result,
            fmt::format("cuMemAlloc of {} bytes on {}, which has {} of {} free", bytes,
                        device->name, free_now, total));
    }
    const CUdeviceptr aligned = (given + kPageBytes - 1) / kPageBytes * kPageBytes;
    try {
      const std::lock_guard lock(device->mutex);
      device->allocations.emplace(aligned, given);
    } catch (...) {
      driver.cuMemFree(given);
      throw;
    }
    *address = aligned;
  });
}

void release(feedrace_cuda_device* device, std::uint64_t address) {
  static_cast<void>(guarded(nullptr, [&] {
    CUdeviceptr given = 0;
    {
      const std::lock_guard lock(device->mutex);
      const auto found = device->allocations.find(address);
      if (found == device->allocations.end()) return;
      given = found->second;
      device->allocations.erase(found);
    }
    const Current current(*device);
    device->driver.cuMemFree(given);
  }));
}

int pin(feedrace_cuda_device* device, void* memory, std::size_t bytes, feedrace_cuda_error* error) {
  return guarded(error, [&] {
    const Current current(*device);
    // Portable: other devices of the process copy from it as fast.
    check(device->driver,
          device->driver.cuMemHostRegister(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE),
          fmt::format("cuMemHostRegister of {} bytes for {}", bytes, device->name));
  });
}

void unpin(feedrace_cuda_device* device, void* memory) {
  static_cast<void>(guarded(nullptr, [&] {
    const Current current(*device);
    device->driver.cuMemHostUnregister(memory);
  }));
}

}  // namespace

Current::Current(const feedrace_cuda_device& device) : driver_(device.driver) {
  check(driver_, driver_.cuCtxPushCurrent(device.context), "cuCtxPushCurrent of " + device.name);
}

Current::~Current() { driver_.cuCtxPopCurrent(nullptr); }

void add_memory(feedrace_cuda_plugin& table) {
  table.open_device = open_device;
  table.close_device = close_device;
  table.memory_facts = memory_facts;
  table.allocate = allocate;
  table.release = release;
  table.pin = pin;
  table.unpin = unpin;
  table.host_node = host_node;
}

}  // namespace feedrace::cuda_plugin
