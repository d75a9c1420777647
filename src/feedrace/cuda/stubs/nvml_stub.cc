// SPDX-License-Identifier: Apache-2.0
// libnvidia-ml.so.1 that knows the devices of the stub of libcuda.
#include <nvml.h>

#include <cstdio>

#include "feedrace/cuda/stubs/stub_control.h"

extern "C" {

int cuDeviceGetCount(int* count);

nvmlReturn_t nvmlInit_v2(void) {
  return static_cast<nvmlReturn_t>(feedrace_stub_failure("nvmlInit_v2"));
}
nvmlReturn_t nvmlShutdown(void) { return NVML_SUCCESS; }
const char* nvmlErrorString(nvmlReturn_t) { return "an error of the stub"; }

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned length) {
  std::snprintf(version, length, "580.65.06");
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  int devices = 0;
  if (cuDeviceGetCount(&devices) != 0) return NVML_ERROR_UNKNOWN;
  *count = static_cast<unsigned>(devices);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device) {
  *device = reinterpret_cast<nvmlDevice_t>(std::uintptr_t{index} + 1);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t* pci) {
  std::snprintf(pci->busId, sizeof(pci->busId), "0000:%02x:00.0",
                static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(device)));
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t, nvmlMemory_t* memory) {
  memory->total = 1ULL << 30U;
  memory->used = feedrace_stub_memory_in_use();
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t, char* name, unsigned length) {
  std::snprintf(name, length, "GPU of the stub");
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t, nvmlUtilization_t* rates) {
  *rates = {62, 20};
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t, nvmlPcieUtilCounter_t counter,
                                         unsigned* kilobytes) {
  *kilobytes = counter == NVML_PCIE_UTIL_RX_BYTES ? 2048 : 1024;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetDecoderUtilization(nvmlDevice_t, unsigned*, unsigned*) {
  return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetNumaNodeId(nvmlDevice_t, unsigned*) { return NVML_ERROR_NOT_SUPPORTED; }
nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t, unsigned* generation) {
  *generation = 5;
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t, unsigned* lanes) {
  *lanes = 16;
  return NVML_SUCCESS;
}

}  // extern "C"
