// SPDX-License-Identifier: Apache-2.0
#include <nvml.h>

#include <cstdint>

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
  CALL(nvmlDeviceGetCurrPcieLinkWidth)      \
  CALL(nvmlDeviceGetName)                   \
  CALL(nvmlDeviceGetUtilizationRates)       \
  CALL(nvmlDeviceGetPcieThroughput)         \
  CALL(nvmlDeviceGetDecoderUtilization)     \
  CALL(nvmlDeviceGetJpgUtilization)

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

/// What NVML sees a device do; what it does not tell is left out.
Json use_of(const Nvml& nvml, unsigned index) {
  nvmlDevice_t device{};
  if (nvml.nvmlDeviceGetHandleByIndex(index, &device) != NVML_SUCCESS) return nullptr;
  Json use;
  char name[NVML_DEVICE_NAME_V2_BUFFER_SIZE] = "";
  // Calls that a driver of ten years ago lacks are null.
  if (nvml.nvmlDeviceGetName != nullptr &&
      nvml.nvmlDeviceGetName(device, name, sizeof(name)) == NVML_SUCCESS) {
    use["name"] = name;
  }
  nvmlPciInfo_t pci{};
  if (nvml.nvmlDeviceGetPciInfo(device, &pci) == NVML_SUCCESS) use["pci"] = pci.busId;
  nvmlUtilization_t rates{};
  if (nvml.nvmlDeviceGetUtilizationRates != nullptr &&
      nvml.nvmlDeviceGetUtilizationRates(device, &rates) == NVML_SUCCESS) {
    use["busy_share"] = rates.gpu / 100.0;
  }
  nvmlMemory_t memory{};
  if (nvml.nvmlDeviceGetMemoryInfo(device, &memory) == NVML_SUCCESS) {
    use["memory_used_bytes"] = memory.used;
    use["memory_total_bytes"] = memory.total;
  }
  unsigned number = 0;
  const auto put_rate = [&](const char* key, nvmlPcieUtilCounter_t counter) {
    if (nvml.nvmlDeviceGetPcieThroughput == nullptr ||
        nvml.nvmlDeviceGetPcieThroughput(device, counter, &number) != NVML_SUCCESS) {
      return;
    }
    use[key] = std::uint64_t{number} * 1024;  // NVML counts in KB.
  };
  put_rate("pcie_received_bytes_per_second", NVML_PCIE_UTIL_RX_BYTES);
  put_rate("pcie_sent_bytes_per_second", NVML_PCIE_UTIL_TX_BYTES);
  unsigned period_us = 0;
  const auto put_share = [&](const char* key, auto call) {
    if (call != nullptr && call(device, &number, &period_us) == NVML_SUCCESS) {
      use[key] = number / 100.0;
    }
  };
  put_share("decoder_share", nvml.nvmlDeviceGetDecoderUtilization);
  put_share("jpeg_share", nvml.nvmlDeviceGetJpgUtilization);
  return use;
}

/// What `ask` gives of NVML once that is started, else why it is not.
template <typename Ask>
std::string asked(const feedrace_cuda_runtime& runtime, const Ask& ask) {
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
  const Json answer = ask(nvml);
  nvml.nvmlShutdown();
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace

std::string nvml_facts(const feedrace_cuda_runtime& runtime) {
  return asked(runtime, facts_of_all);
}

std::string nvml_use(const feedrace_cuda_runtime& runtime) {
  return asked(runtime, [](const Nvml& nvml) {
    Json use{{"devices", Json::array()}};
    unsigned count = 0;
    if (nvml.nvmlDeviceGetCount(&count) != NVML_SUCCESS) return use;
    for (unsigned i = 0; i < count; ++i) use["devices"].push_back(use_of(nvml, i));
    return use;
  });
}

}  // namespace feedrace::cuda_plugin
