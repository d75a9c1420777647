// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace feedrace::pipeline {

/// How a GPU and the drives of the samples are connected.
struct GpuDistance {
  bool is_far = false;  ///< Not below one PCIe root complex.
  std::string path;     ///< "across sockets", of the farthest drive; empty: unknown.
};

/// `pci_address` as drivers have it ("00000000:17:00.0"). Looks at sys/ under `root` (tests).
GpuDistance gpu_distance(std::string_view pci_address, const std::vector<std::string>& disks,
                         const std::string& root = "/");

/// The address of device number `ordinal` in what the plug-in says of itself; empty: unknown.
std::string pci_address_of(const std::string& plugin_facts, int ordinal);

}  // namespace feedrace::pipeline
