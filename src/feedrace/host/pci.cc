// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/pci.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string_view>
#include <system_error>

#include "feedrace/host/sys_text.h"

namespace feedrace::host {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kNvidia = 0x10de;
constexpr std::uint32_t kDisplayClass = 0x03;
constexpr std::uint32_t kBridgeClass = 0x0604;

// Extended capabilities (PCI Express Base Specification, 7.6.3 and 7.7.8).
constexpr std::size_t kExtendedAt = 0x100;
constexpr unsigned kAcsId = 0x000d;
constexpr std::size_t kAcsControlAt = 6;
/// P2P Request Redirect, P2P Completion Redirect, Upstream Forwarding.
constexpr unsigned kRedirecting = 0x1c;

/// "0x10de" and "10de".
std::uint32_t hex_of(const fs::path& file) {
  std::string word = word_of(file);
  if (word.starts_with("0x")) word.erase(0, 2);
  std::uint32_t value = 0;
  const char* end = word.data() + word.size();
  const auto [stop, error] = std::from_chars(word.data(), end, value, 16);
  return error == std::errc() && stop == end ? value : 0;
}

/// "0000:17:00.0": domain of 4 digits or more, bus, device, function.
bool is_address(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == std::string_view::npos || colon < 4 || text.size() != colon + 8) return false;
  const auto are_hex = [&](std::size_t at, std::size_t count) {
    const std::string_view part = text.substr(at, count);
    return part.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
  };
  return are_hex(0, colon) && are_hex(colon + 1, 2) && text[colon + 3] == ':' &&
         are_hex(colon + 4, 2) && text[colon + 6] == '.' && are_hex(colon + 7, 1);
}

PciDevice read_device(const fs::path& folder) {
  PciDevice device;
  device.address = folder.filename().string();
  device.folder = folder;
  device.class_code = hex_of(folder / "class");
  device.vendor = hex_of(folder / "vendor");
  const auto node = number_of(folder / "numa_node");
  if (node && *node >= 0 && *node <= 0xffff) device.numa_node = static_cast<int>(*node);
  return device;
}

/// "pci0000:80": where devices of one root complex begin.
bool is_host_bridge(const fs::path& folder) {
  const std::string name = folder.filename().string();
  return name.starts_with("pci") && name.find(':') != std::string::npos;
}

/// The device's own folder last: what lies between the host bridge and it.
std::vector<fs::path> way_down(const PciDevice& device) {
  std::vector<fs::path> way;
  fs::path folder = device.folder;
  for (; folder.has_relative_path() && !is_host_bridge(folder); folder = folder.parent_path()) {
    if (!is_address(folder.filename().string())) return {};
    way.push_back(folder);
  }
  if (folder.has_relative_path()) way.push_back(folder);
  std::reverse(way.begin(), way.end());
  return way;
}

unsigned little16(std::string_view bytes, std::size_t at) {
  return static_cast<unsigned char>(bytes[at]) |
         static_cast<unsigned>(static_cast<unsigned char>(bytes[at + 1])) << 8;
}

/// "8.0 GT/s PCIe".
PciLink read_link(const fs::path& folder, const std::string& prefix) {
  PciLink link;
  const std::string speed = word_of(folder / (prefix + "_link_speed"));
  std::from_chars(speed.data(), speed.data() + speed.size(), link.speed_gt_s);
  const auto lanes = number_of(folder / (prefix + "_link_width"));
  if (lanes && *lanes > 0 && *lanes <= 32) link.lanes = static_cast<unsigned>(*lanes);
  return link;
}

}  // namespace

bool PciDevice::is_nvidia_gpu() const noexcept {
  return vendor == kNvidia && class_code >> 16 == kDisplayClass;
}

std::vector<PciDevice> pci_devices(const fs::path& root) {
  std::vector<PciDevice> devices;
  std::error_code ended;
  for (fs::directory_iterator entry(root / "sys/bus/pci/devices", ended), end;
       !ended && entry != end; entry.increment(ended)) {
    std::error_code missing;
    const fs::path folder = fs::canonical(entry->path(), missing);
    if (!missing && is_address(folder.filename().string())) devices.push_back(read_device(folder));
  }
  std::sort(devices.begin(), devices.end(),
            [](const PciDevice& a, const PciDevice& b) { return a.address < b.address; });
  return devices;
}

std::optional<PciDevice> pci_device_of(const fs::path& root, const std::string& name) {
  for (const char* kind : {"sys/class/nvme", "sys/class/block"}) {
    std::error_code missing;
    fs::path folder = fs::canonical(root / kind / name, missing);
    if (missing) continue;
    for (; folder.has_relative_path(); folder = folder.parent_path()) {
      if (is_address(folder.filename().string())) return read_device(folder);
    }
  }
  return std::nullopt;
}

PciPath path_between(const PciDevice& a, const PciDevice& b) {
  const auto way_a = way_down(a);
  const auto way_b = way_down(b);
  const auto [end_a, end_b] = std::mismatch(way_a.begin(), way_a.end(), way_b.begin(), way_b.end());
  // In common: nothing, the host bridge, the root port below it, or a bridge of a switch below
  // that.
  switch (end_a - way_a.begin()) {
    case 0:
      if (a.numa_node < 0 || b.numa_node < 0) return PciPath::kUnknown;
      return a.numa_node == b.numa_node ? PciPath::kSameNode : PciPath::kOtherNode;
    case 1:
      return PciPath::kSameHostBridge;
    case 2:
      return PciPath::kSameRootPort;
    default:
      return PciPath::kSameSwitch;
  }
}

const char* to_string(PciPath path) noexcept {
  switch (path) {
    case PciPath::kSameSwitch:
      return "same switch";
    case PciPath::kSameRootPort:
      return "same root port";
    case PciPath::kSameHostBridge:
      return "same host bridge";
    case PciPath::kSameNode:
      return "same NUMA node, other host bridge";
    case PciPath::kOtherNode:
      return "across sockets";
    case PciPath::kUnknown:
      break;
  }
  return "unknown";
}

std::optional<PciLinks> links_of(const PciDevice& device) {
  const PciLinks links = {read_link(device.folder, "current"), read_link(device.folder, "max")};
  const bool is_known = links.now.speed_gt_s > 0 && links.now.lanes > 0 &&
                        links.most.speed_gt_s > 0 && links.most.lanes > 0;
  return is_known ? std::optional(links) : std::nullopt;
}

AcsState acs_of(const PciDevice& bridge) {
  const std::string bytes = text_of(bridge.folder / "config");
  // Others than root see the first 64 bytes; a device without the extended part has 256.
  if (bytes.size() < 256) return AcsState::kUnknown;
  std::size_t at = kExtendedAt;
  // Each capability takes 4 bytes at least; a list that is longer goes in circles.
  for (std::size_t i = 0; i < bytes.size() / 4; ++i) {
    if (at < kExtendedAt || at + kAcsControlAt + 2 > bytes.size()) return AcsState::kOff;
    if (little16(bytes, at) == kAcsId) {
      const unsigned control = little16(bytes, at + kAcsControlAt);
      return (control & kRedirecting) != 0 ? AcsState::kRedirects : AcsState::kOff;
    }
    at = little16(bytes, at + 2) >> 4;
  }
  return AcsState::kOff;
}

std::vector<PciDevice> bridges_above(const PciDevice& device) {
  std::vector<PciDevice> bridges;
  for (fs::path folder = device.folder.parent_path(); is_address(folder.filename().string());
       folder = folder.parent_path()) {
    const PciDevice bridge = read_device(folder);
    if (bridge.class_code >> 8 == kBridgeClass) bridges.push_back(bridge);
  }
  return bridges;
}

}  // namespace feedrace::host
