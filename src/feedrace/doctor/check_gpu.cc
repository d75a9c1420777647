// SPDX-License-Identifier: Apache-2.0
// GPUs: driver, and the ways between them and the drives.

#include <algorithm>
#include <charconv>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/doctor/checks.h"
#include "feedrace/host/pci.h"
#include "feedrace/host/sys_text.h"

namespace feedrace::doctor {
namespace {

namespace fs = std::filesystem;

using host::AcsState;
using host::pci_device_of;
using host::pci_devices;
using host::PciDevice;
using host::PciLink;
using host::PciPath;

struct Drive {
  std::string name;
  PciDevice device;
};

std::string names_of(const std::vector<PciDevice>& devices) {
  std::string text;
  for (const PciDevice& device : devices) text += (text.empty() ? "" : ", ") + device.address;
  return text;
}

/// "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build ...".
std::string driver_version(const std::string& text) {
  const std::size_t begin = text.find_first_of("0123456789", text.find("Module"));
  if (text.find("Module") == std::string::npos || begin == std::string::npos) return {};
  std::size_t at = begin;
  while (at < text.size()) {  // "x86_64" and "AArch64" come before.
    const std::size_t end = text.find_first_of(" \n", at);
    const std::string word = text.substr(at, end - at);
    const bool is_version = word.find('.') != std::string::npos &&
                            word.find_first_not_of("0123456789.") == std::string::npos;
    if (is_version) return word;
    if (end == std::string::npos) break;
    at = end + 1;
  }
  return {};
}

void check_driver(const Place& place, const std::vector<PciDevice>& gpus, Findings& findings) {
  Finding one = make_finding("gpu_driver", names_of(gpus), Weight::kLarge);
  one.wanted = "580 or later (CUDA 13), open kernel module";
  one.why = "Without the driver a GPU is not used; reads from NVMe into it need the open module.";
  one.fix = "# install the driver: Debian nvidia-open-kernel-dkms, or NVIDIA's nvidia-open";
  const std::string text = host::text_of(place / "proc/driver/nvidia/version");
  const std::string version = driver_version(text);
  if (version.empty()) {
    one.grade = Grade::kProblem;
    one.found = "no driver is loaded";
    findings.push_back(std::move(one));
    return;
  }
  const bool is_open = text.find("Open Kernel Module") != std::string::npos;
  constexpr int kCuda13 = 580;
  int major = 0;
  std::from_chars(version.data(), version.data() + version.size(), major);
  const bool is_recent = major >= kCuda13;
  set_found(one, is_recent ? (is_open ? Grade::kGood : Grade::kAdvice) : Grade::kProblem,
            fmt::format("{}, {} kernel module", version, is_open ? "open" : "proprietary"));
  findings.push_back(std::move(one));
}

void check_direct(const Place& place, const std::vector<Drive>& drives, Findings& findings) {
  Finding one = make_finding("gpudirect_storage", "", Weight::kSome);
  one.wanted = "the module nvidia-fs, or P2PDMA with the open driver";
  one.why =
      "Without either cuFile works all the same, by reading into host memory and copying: no "
      "faster than without it.";
  one.tip =
      "\"GPUDirect Storage is always faster\" does not hold: it goes past the page cache, so "
      "that a set that fits into memory is slower from the second epoch on.";
  one.fix = "# install nvidia-fs (nvidia-gds), or P2PDMA: docs/gpudirect.md";
  const std::string version = host::text_of(place / "proc/driver/nvidia-fs/version");
  const auto count = host::number_of(place / "proc/driver/nvidia-fs/devcount");
  std::error_code unknown;
  if (version.empty()) {
    one.grade = drives.empty() ? Grade::kUnknown : Grade::kAdvice;
    one.found = "nvidia-fs is not loaded";
    findings.push_back(std::move(one));
    return;
  }
  const bool has_nodes = fs::exists(place / "dev/nvidia-fs0", unknown);
  std::string found = "nvidia-fs " + version.substr(version.find_first_of("0123456789"));
  while (!found.empty() && found.back() == '\n') found.pop_back();
  Grade grade = Grade::kGood;
  if (count.value_or(0) > 0 && !has_nodes) {
    found += ", but /dev/nvidia-fs* is missing, as in many containers";
    one.fix = "# start the container with --device of each /dev/nvidia-fs*";
    grade = Grade::kProblem;
  }
  set_found(one, grade, found);
  findings.push_back(std::move(one));
}

void check_path(const PciDevice& gpu, const Drive& drive, Findings& findings) {
  Finding one =
      make_finding("gpu_to_disk", fmt::format("{} to {}", gpu.address, drive.name), Weight::kSome);
  one.wanted = "same switch, or the same root port";
  one.why =
      "Reads into the GPU that pass a root complex are slower, and across sockets often "
      "slower than through host memory.";
  one.fix =
      "# move the card or the drive to a slot below the same switch, or use the drives that "
      "are near: feedrace bench io --device";
  const PciPath path = path_between(gpu, drive.device);
  Grade grade = Grade::kGood;
  if (path == PciPath::kSameHostBridge || path == PciPath::kSameNode) grade = Grade::kAdvice;
  if (path == PciPath::kOtherNode) grade = Grade::kProblem;
  set_found(one, grade, path == PciPath::kUnknown ? "" : to_string(path),
            "other host bridges, of NUMA nodes that are not known");
  findings.push_back(std::move(one));
}

std::string text_of(const PciLink& link) {
  return fmt::format("{:.4g} GT/s x{}", link.speed_gt_s, link.lanes);
}

void check_link(const PciDevice& device, const std::string& name, bool is_gpu, Findings& findings) {
  Finding one = make_finding("pcie_link", name, Weight::kSome);
  one.why = "Half the lanes are half the bytes a second.";
  const auto links = links_of(device);
  one.wanted = links ? text_of(links->most) : "as fast and wide as the device can";
  if (is_gpu) one.tip = "An idle GPU slows its link down: only lanes count, or a look under load.";
  one.fix = "# another slot: one that is wired for all lanes, not shared";
  std::string found;
  Grade grade = Grade::kGood;
  if (links) {
    found = text_of(links->now);
    const bool is_slow = !is_gpu && links->now.speed_gt_s < links->most.speed_gt_s;
    if (links->now.lanes < links->most.lanes || is_slow) grade = Grade::kAdvice;
    if (2 * links->now.lanes < links->most.lanes) grade = Grade::kProblem;
  }
  set_found(one, grade, found);
  findings.push_back(std::move(one));
}

/// Of the bridges between GPUs and drives that share a switch.
void check_acs(const std::vector<PciDevice>& gpus, const std::vector<Drive>& drives,
               Findings& findings) {
  std::set<std::string> redirecting;
  std::set<std::string> unknown;
  bool any = false;
  for (const PciDevice& gpu : gpus) {
    for (const Drive& drive : drives) {
      if (path_between(gpu, drive.device) != PciPath::kSameSwitch) continue;
      for (const PciDevice& end : {gpu, drive.device}) {
        for (const PciDevice& bridge : bridges_above(end)) {
          any = true;
          const AcsState state = acs_of(bridge);
          if (state == AcsState::kRedirects) redirecting.insert(bridge.address);
          if (state == AcsState::kUnknown) unknown.insert(bridge.address);
        }
      }
    }
  }
  if (!any) return;
  Finding one = make_finding("pcie_acs", "", Weight::kSome);
  one.wanted = "off on the bridges between GPU and drive";
  one.why =
      "Access Control Services send what one device writes to another up to the root "
      "complex, past the short way through the switch.";
  one.tip = "It separates devices from each other: leave it on where virtual machines share them.";
  std::string found;
  Grade grade = Grade::kGood;
  if (!redirecting.empty()) {
    found = fmt::format("redirects on {}", fmt::join(redirecting, ", "));
    grade = Grade::kAdvice;
    for (const std::string& bridge : redirecting) {
      one.fix += fmt::format("{}setpci -s {} ECAP_ACS+6.w=0:1c  # until the next start",
                             one.fix.empty() ? "" : "\n", bridge);
    }
  } else if (unknown.empty()) {
    found = "off";
  }
  set_found(one, grade, found, "only root may read the configuration of PCI devices");
  findings.push_back(std::move(one));
}

/// How the IOMMU treats a device: "identity", "DMA-FQ"; empty: unknown, or not at all.
std::string iommu_type_of(const PciDevice& device) {
  return host::word_of(device.folder / "iommu_group" / "type");
}

void check_iommu(const Place& place, const std::vector<PciDevice>& gpus,
                 const std::vector<Drive>& drives, Findings& findings) {
  Finding one = make_finding("iommu", "", Weight::kSome);
  one.wanted = "off, or pass-through (identity)";
  one.why =
      "Reads from a drive into a GPU go up to the IOMMU where it translates, and P2PDMA is "
      "refused.";
  one.fix =
      "# add iommu=pt to the kernel's command line (GRUB_CMDLINE_LINUX in "
      "/etc/default/grub), update-grub, restart";
  std::set<std::string> types;
  for (const PciDevice& gpu : gpus) types.insert(iommu_type_of(gpu));
  for (const Drive& drive : drives) types.insert(iommu_type_of(drive.device));
  types.erase("");
  std::error_code unknown;
  const bool is_there = fs::is_directory(place / "sys/kernel/iommu_groups", unknown);
  const bool translates =
      std::any_of(types.begin(), types.end(), [](const std::string& t) { return t != "identity"; });
  std::string found;
  if (!types.empty()) {
    found = fmt::format("{}", fmt::join(types, ", "));
  } else if (is_there) {
    found = "off";
  }
  set_found(one, translates ? Grade::kAdvice : Grade::kGood, found);
  findings.push_back(std::move(one));
}

/// P2PDMA does not go through md.
void check_raid(const Place& place, const std::vector<Storage>& storages, Findings& findings) {
  std::set<std::string> seen;
  for (const Storage& storage : storages) {
    const std::string& name = storage.device.name;
    const std::string level = host::word_of(place.root / "sys/class/block" / name / "md/level");
    if (name.empty() || level.empty() || !seen.insert(name).second) continue;
    Finding one = make_finding("gpudirect_raid", name, Weight::kSome);
    one.wanted = "nvidia-fs for RAID-0, or drives of their own";
    one.why = "P2PDMA refuses md RAID; nvidia-fs takes RAID-0 and RAID-1.";
    one.fix = "# load nvidia-fs, or spread shards over single drives";
    const bool has_module = !host::text_of(place / "proc/driver/nvidia-fs/version").empty();
    set_found(one, has_module ? Grade::kGood : Grade::kAdvice,
              fmt::format("{}{}", level, has_module ? " with nvidia-fs" : " without nvidia-fs"));
    findings.push_back(std::move(one));
  }
}

std::vector<Drive> drives_of(const Place& place, const std::vector<Storage>& storages) {
  std::vector<Drive> drives;
  for (const std::string& disk : disks_of(storages)) {
    if (auto device = pci_device_of(place.root, disk)) drives.push_back({disk, *device});
  }
  return drives;
}

}  // namespace

void check_gpu(const Place& place, const std::vector<Storage>& storages, Findings& findings) {
  const std::vector<Drive> drives = drives_of(place, storages);
  for (const Drive& drive : drives) {
    // Others share a controller's link, or have none.
    if (drive.name.starts_with("nvme")) check_link(drive.device, drive.name, false, findings);
  }

  std::error_code unknown;
  std::vector<PciDevice> gpus;
  for (PciDevice& device : pci_devices(place.root)) {
    if (device.is_nvidia_gpu()) gpus.push_back(std::move(device));
  }
  if (gpus.empty()) {
    Finding one = make_finding("gpu", "", Weight::kLarge);
    one.wanted = "a GPU of NVIDIA, if batches shall go to one";
    one.why = "Nothing below it is looked at.";
    const bool is_known = fs::is_directory(place / "sys/bus/pci/devices", unknown);
    set_found(one, Grade::kGood, is_known ? "none on PCI" : "");
    findings.push_back(std::move(one));
    return;
  }
  check_driver(place, gpus, findings);
  check_direct(place, drives, findings);
  for (const PciDevice& gpu : gpus) {
    check_link(gpu, gpu.address, true, findings);
    for (const Drive& drive : drives) check_path(gpu, drive, findings);
  }
  check_acs(gpus, drives, findings);
  check_iommu(place, gpus, drives, findings);
  check_raid(place, storages, findings);
}

}  // namespace feedrace::doctor
