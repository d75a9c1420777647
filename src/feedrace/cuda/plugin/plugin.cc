// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/cuda/plugin/handles.h"

namespace feedrace::cuda_plugin {
namespace {

using Json = nlohmann::ordered_json;

Json driver_facts(const Driver& driver) {
  if (!driver.missing.empty()) return {{"missing", driver.missing}, {"remedy", driver.remedy}};
  return {{"version", fmt::format("{}.{}", driver.version / 1000, driver.version % 1000 / 10)},
          {"library", driver.library.path()}};
}

int attribute(const Driver& driver, CUdevice device, CUdevice_attribute which, int otherwise) {
  int value = 0;
  return driver.cuDeviceGetAttribute(&value, which, device) == CUDA_SUCCESS ? value : otherwise;
}

std::string uuid_of(const Driver& driver, CUdevice device) {
  CUuuid uuid{};
  if (driver.cuDeviceGetUuid(&uuid, device) != CUDA_SUCCESS) return "";
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

/// No context is made for it: that takes hundreds of megabytes of the device.
Json device_facts(const Driver& driver, int ordinal) {
  CUdevice device = 0;
  check(driver, driver.cuDeviceGet(&device, ordinal), fmt::format("cuDeviceGet of {}", ordinal));
  char name[128] = "";
  char pci[32] = "";
  std::size_t memory_bytes = 0;
  driver.cuDeviceGetName(name, sizeof(name), device);
  driver.cuDeviceGetPCIBusId(pci, sizeof(pci), device);
  driver.cuDeviceTotalMem(&memory_bytes, device);
  const int major = attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0);
  const int minor = attribute(driver, device, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0);
  return {
      {"ordinal", ordinal},
      {"name", name},
      {"uuid", uuid_of(driver, device)},
      {"pci", pci},
      {"compute", fmt::format("{}.{}", major, minor)},
      {"memory_bytes", memory_bytes},
      {"multiprocessors", attribute(driver, device, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0)}};
}

void add_devices(const Driver& driver, Json& facts) {
  facts["devices"] = Json::array();
  if (!driver.missing.empty()) {
    facts["devices_missing"] = driver.refusal();
    return;
  }
  int count = 0;
  try {
    check(driver, driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
    for (int i = 0; i < count; ++i) facts["devices"].push_back(device_facts(driver, i));
    if (count == 0) {
      facts["devices_missing"] =
          "the driver has no GPU for this process; look at CUDA_VISIBLE_DEVICES and nvidia-smi";
    }
  } catch (const Refusal& refusal) {
    facts["devices_missing"] = refusal.what();
  }
}

int open_runtime(const feedrace_cuda_options* options, feedrace_cuda_runtime** runtime,
                 feedrace_cuda_error* error) {
  return guarded(error, [&] {
    const char* folders = options == nullptr ? nullptr : options->library_folders;
    *runtime = new feedrace_cuda_runtime(folders_of(folders));
  });
}

void close_runtime(feedrace_cuda_runtime* runtime) { delete runtime; }

int info(feedrace_cuda_runtime* runtime, char* json, std::size_t capacity,
         std::size_t* needed_bytes, feedrace_cuda_error* error) {
  return guarded(error, [&] {
    Json facts;
    facts["driver"] = driver_facts(runtime->driver);
    facts["nvml"] = Json::parse(nvml_facts(*runtime));
    facts["nvjpeg"] = Json::parse(decoder_facts(*runtime));
    facts["cufile"] = Json::parse(direct_facts(*runtime));
    add_devices(runtime->driver, facts);
    // Names of devices and files may hold anything.
    give_text(facts.dump(-1, ' ', false, Json::error_handler_t::replace), json, capacity,
              needed_bytes);
  });
}

int use(feedrace_cuda_runtime* runtime, char* json, std::size_t capacity, std::size_t* needed_bytes,
        feedrace_cuda_error* error) {
  return guarded(error, [&] { give_text(nvml_use(*runtime), json, capacity, needed_bytes); });
}

feedrace_cuda_plugin make_table() {
  feedrace_cuda_plugin table{};
  table.abi_version = FEEDRACE_CUDA_ABI_VERSION;
  table.struct_bytes = sizeof(table);
  table.version = FEEDRACE_VERSION;
  table.built_for_cuda = CUDA_VERSION;
  table.architectures = FEEDRACE_CUDA_ARCHITECTURES;
  table.open_runtime = open_runtime;
  table.close_runtime = close_runtime;
  table.info = info;
  table.use = use;
  add_memory(table);
  add_streams(table);
  add_fused_pass(table);
  add_decoder(table);
  add_direct(table);
  add_ranges(table);
  return table;
}

}  // namespace
}  // namespace feedrace::cuda_plugin

extern "C" __attribute__((visibility("default"))) const feedrace_cuda_plugin*
feedrace_cuda_plugin_get(void) {
  static const feedrace_cuda_plugin kTable = feedrace::cuda_plugin::make_table();
  return &kTable;
}
