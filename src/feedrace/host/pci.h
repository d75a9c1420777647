// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace feedrace::host {

/// A device on PCI, as sysfs has it.
struct PciDevice {
  std::string address;           ///< "0000:17:00.0", lower case.
  std::filesystem::path folder;  ///< Without links: it shows the bridges above.
  std::uint32_t class_code = 0;  ///< 0x030200: base class, subclass, interface.
  std::uint32_t vendor = 0;
  int numa_node = -1;  ///< -1: unknown.

  /// A display or 3D controller of NVIDIA.
  bool is_nvidia_gpu() const noexcept;
};

/// All below sys/bus/pci of `root`, by address. What can't be read is left out.
std::vector<PciDevice> pci_devices(const std::filesystem::path& root);

/// The PCI device that a block device or NVMe controller of sysfs hangs on: "nvme0n1", "nvme0",
/// "sda". Nothing for those that hang on none (virtual, network).
std::optional<PciDevice> pci_device_of(const std::filesystem::path& root, const std::string& name);

/// How two devices reach each other, the shortest way first.
enum class PciPath {
  kSameSwitch,      ///< By a bridge below a root port: no root complex between.
  kSameRootPort,    ///< By the root port alone.
  kSameHostBridge,  ///< Through the root complex.
  kSameNode,        ///< Through the socket's fabric, from one host bridge to another.
  kOtherNode,       ///< Across sockets.
  kUnknown,         ///< Different host bridges, of nodes that nobody tells.
};
PciPath path_between(const PciDevice& a, const PciDevice& b);
const char* to_string(PciPath path) noexcept;  ///< "same switch", "across sockets".

/// "16.0 GT/s PCIe" times lanes, as sysfs has it.
struct PciLink {
  double speed_gt_s = 0;
  unsigned lanes = 0;

  friend bool operator==(const PciLink&, const PciLink&) = default;
};
struct PciLinks {
  PciLink now, most;
};
/// Nothing where sysfs does not tell.
std::optional<PciLinks> links_of(const PciDevice& device);

/// What Access Control Services of a bridge do to traffic between the devices below it.
enum class AcsState {
  kOff,        ///< Not there, or nothing of it on: devices reach each other directly.
  kRedirects,  ///< Requests from device to device go up to the root complex.
  kUnknown,    ///< The configuration can't be read so far: only root may.
};
AcsState acs_of(const PciDevice& bridge);

/// Bridges above the device, the nearest first.
std::vector<PciDevice> bridges_above(const PciDevice& device);

}  // namespace feedrace::host
