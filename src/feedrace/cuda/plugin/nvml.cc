// SPDX-License-Identifier: Apache-2.0
#include <nvml.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/cuda/plugin/handles.h"

namespace feedrace::cuda_plugin {
namespace {

using Json = nlohmann::ordered_json;

#define FEEDRACE_NVML_CALLS(CALL)           \
  CALL(nvmlInit)                            \
  CALL(nvmlShutdown)                        \
  CALL(nvmlErrorString)                     \
  CALL(nvmlSystemGetDriverVersion)          \
  CALL(nvmlDeviceGetCount)                  \
  CALL(nvmlDeviceGetHandleByIndex)          \
  CALL(nvmlDeviceGetPciInfo)                \
  CALL(nvmlDeviceGetMemoryInfo)             \
  CALL(nvmlDeviceGetNumaNodeId)             \
  CALL(nvmlDeviceGetCurrPcieLinkGeneration) \
  CALL(nvmlDeviceGetCurrPcieLinkWidth)

#define FEEDRACE_TEXT_OF(name) #name
#define FEEDRACE_SYMBOL_OF(name) FEEDRACE_TEXT_OF(name)

struct Nvml {
  explicit Nvml(const std::vector<std::string>& folders) : library("libnvidia-ml.so.1", folders) {
#define FEEDRACE_FIND(name) \
  name = reinterpret_cast<decltype(name)>(library.symbol(FEEDRACE_SYMBOL_OF(name)));
    FEEDRACE_NVML_CALLS(FEEDRACE_FIND)
#undef FEEDRACE_FIND
  }

  Library library;
#define FEEDRACE_MEMBER(name) decltype(&::name) name = nullptr;
  FEEDRACE_NVML_CALLS(FEEDRACE_MEMBER)
#undef FEEDRACE_MEMBER
};

/// What NVML tells of a device; what a device does not tell is left out.
Json facts_of(const Nvml& nvml, unsigned index) {
  nvmlDevice_t device{};
  if (nvml.nvmlDeviceGetHandleByIndex(index, &device) != NVML_SUCCESS) return nullptr;
  Json facts;
  nvmlPciInfo_t pci{};
  if (nvml.nvmlDeviceGetPciInfo(device, &pci) == NVML_SUCCESS) facts["pci"] = pci.busId;
  nvmlMemory_t memory{};
  if (nvml.nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS) {
    facts["free_bytes"] = memory.free;
  }
  unsigned number = 0;
  // Drivers before 530 have no such call.
  if (nvml.nvmlDeviceGetNumaNodeId != nullptr &&
      nvml.nvmlDeviceGetNumaNodeId(device, &number) == NVML_SUCCESS) {
    facts["numa_node"] = number;
  }
  if (nvml.nvmlDeviceGetCurrPcieLinkGeneration(device, &number) == NVML_SUCCESS) {
    facts["pcie_generation"] = number;
  }
  if (nvml.nvmlDeviceGetCurrPcieLinkWidth(device, &number) == NVML_SUCCESS) {
    facts["pcie_lanes"] = number;
  }
  return facts;
}

Json missing(const std::string& why, const char* remedy) {
  return {{"missing", why}, {"remedy", remedy}};
}

Json facts_of_all(const Nvml& nvml) {
  char version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";
  nvml.nvmlSystemGetDriverVersion(version, sizeof(version));
  Json facts{{"driver_version", version}, {"library", nvml.library.path()}};
  facts["devices"] = Json::array();
  unsigned count = 0;
  if (nvml.nvmlDeviceGetCount(&count) != NVML_SUCCESS) return facts;
  for (unsigned i = 0; i < count; ++i) facts["devices"].push_back(facts_of(nvml, i));
  return facts;
}

}  // namespace

std::string nvml_facts(const feedrace_cuda_runtime& runtime) {
  const Nvml nvml(runtime.folders);
  const char* const remedy = "it comes with the driver of NVIDIA: install that";
  if (!nvml.library) return missing(nvml.library.failure(), remedy).dump();
  // The newest call apart, all have been there for ten years.
  if (nvml.nvmlInit == nullptr || nvml.nvmlDeviceGetHandleByIndex == nullptr ||
      nvml.nvmlDeviceGetCurrPcieLinkWidth == nullptr) {
    return missing(nvml.library.path() + " is too old", remedy).dump();
  }
  if (const nvmlReturn_t result = nvml.nvmlInit(); result != NVML_SUCCESS) {
    return missing(fmt::format("nvmlInit gave {} ({})", static_cast<int>(result),
                               nvml.nvmlErrorString(result)),
                   "check nvidia-smi")
        .dump();
  }
  const Json facts = facts_of_all(nvml);
  nvml.nvmlShutdown();
  return facts.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace feedrace::cuda_plugin
