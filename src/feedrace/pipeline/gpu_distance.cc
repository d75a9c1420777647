// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/gpu_distance.h"

#include <algorithm>
#include <cctype>
#include <optional>

#include "feedrace/core/json_text.h"
#include "feedrace/host/pci.h"

namespace feedrace::pipeline {
namespace {

/// As sysfs has it: lower case, a domain of four digits.
std::string as_sysfs(std::string_view address) {
  std::string text(address);
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  constexpr std::string_view kLongDomain = "0000";
  const std::size_t colon = text.find(':');
  if (colon == 2 * kLongDomain.size() && text.starts_with(kLongDomain)) {
    text.erase(0, kLongDomain.size());
  }
  return text;
}

}  // namespace

GpuDistance gpu_distance(std::string_view pci_address, const std::vector<std::string>& disks,
                         const std::string& root) {
  const auto devices = host::pci_devices(root);
  const auto gpu = std::find_if(
      devices.begin(), devices.end(),
      [address = as_sysfs(pci_address)](const auto& one) { return one.address == address; });
  if (gpu == devices.end()) return {};
  std::optional<host::PciPath> farthest;
  for (const std::string& disk : disks) {
    const auto drive = host::pci_device_of(root, disk);
    if (!drive) return {};
    const host::PciPath path = host::path_between(*gpu, *drive);
    if (path == host::PciPath::kUnknown) return {};
    if (!farthest || path > *farthest) farthest = path;
  }
  if (!farthest) return {};
  const bool is_far =
      *farthest == host::PciPath::kSameNode || *farthest == host::PciPath::kOtherNode;
  return {is_far, host::to_string(*farthest)};
}

std::string pci_address_of(const std::string& plugin_facts, int ordinal) {
  const nlohmann::json facts = parse_shallow_json(plugin_facts);
  if (!facts.is_object() || !facts.contains("devices") || !facts["devices"].is_array()) return {};
  for (const auto& device : facts["devices"]) {
    const bool is_it = device.is_object() && device.value("ordinal", -1) == ordinal;
    if (is_it && device.contains("pci") && device["pci"].is_string()) return device["pci"];
  }
  return {};
}

}  // namespace feedrace::pipeline
