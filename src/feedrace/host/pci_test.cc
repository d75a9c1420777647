// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/pci.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/host/test_sys_tree.h"

namespace feedrace::host {
namespace {

using ::testing::ElementsAre;
using ::testing::Field;

constexpr const char* kSwitch = "sys/devices/pci0000:80/0000:80:00.0/0000:81:00.0";

PciDevice device_at(const SysTree& tree, const std::string& folder, int node) {
  PciDevice device;
  device.folder = tree.root() + "/" + folder;
  device.address = device.folder.filename().string();
  device.numa_node = node;
  return device;
}

TEST(PciPath, FollowsTheBridges) {
  const SysTree tree;
  const std::string below = kSwitch;
  const PciDevice gpu = device_at(tree, below + "/0000:82:00.0/0000:83:00.0", 1);
  const auto path_to = [&](const std::string& folder, int node) {
    return path_between(gpu, device_at(tree, folder, node));
  };
  EXPECT_EQ(path_to(below + "/0000:82:01.0/0000:84:00.0", 1), PciPath::kSameSwitch);
  EXPECT_EQ(path_to("sys/devices/pci0000:80/0000:80:00.0/0000:90:00.0", 1), PciPath::kSameRootPort);
  EXPECT_EQ(path_to("sys/devices/pci0000:80/0000:80:01.0/0000:91:00.0", 1),
            PciPath::kSameHostBridge);
  EXPECT_EQ(path_to("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0", 1), PciPath::kSameNode);
  EXPECT_EQ(path_to("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0", 0), PciPath::kOtherNode);
  EXPECT_EQ(path_to("sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0", -1), PciPath::kUnknown);
}

TEST(PciDevices, AreReadFromTheBus) {
  SysTree tree;
  const std::string gpu = std::string(kSwitch) + "/0000:82:00.0/0000:83:00.0";
  tree.file(gpu + "/class", "0x030200").file(gpu + "/vendor", "0x10de");
  tree.file(gpu + "/numa_node", "1").link("sys/bus/pci/devices/0000:83:00.0", gpu);
  tree.link("sys/bus/pci/devices/broken", "nowhere");
  const auto devices = pci_devices(tree.root());
  ASSERT_THAT(devices, ElementsAre(Field(&PciDevice::address, "0000:83:00.0")));
  EXPECT_TRUE(devices[0].is_nvidia_gpu());
  EXPECT_EQ(devices[0].numa_node, 1);
}

TEST(PciDevices, OfADriveIsTheNearestAbove) {
  SysTree tree;
  const std::string controller = tree.nvme("nvme0", "17", 1);
  tree.block(controller + "/nvme0n1", "259:0");
  EXPECT_EQ(pci_device_of(tree.root(), "nvme0n1")->address, "0000:17:01.0");
  EXPECT_EQ(pci_device_of(tree.root(), "nvme0")->address, "0000:17:01.0");
  EXPECT_FALSE(pci_device_of(tree.root(), "nvme1"));
}

/// A configuration whose capabilities are in `extended`, from 0x100 on.
PciDevice bridge_with(SysTree& tree, const std::string& extended) {
  const std::string folder = "sys/devices/pci0000:80/0000:80:00.0";
  tree.file(folder + "/config", std::string(256, '\0') + extended);
  return device_at(tree, folder, 0);
}

TEST(Acs, IsFoundInTheListOfCapabilities) {
  SysTree tree;
  // Advanced error reporting, version 1, the next one at 0x108; then ACS.
  const std::string other = {'\x01', '\0', '\x81', '\x10', 0, 0, 0, 0};
  const std::string acs = {'\x0d', '\0', '\x01', '\0', '\xff', '\0', '\x1d', '\0'};
  EXPECT_EQ(acs_of(bridge_with(tree, other + acs)), AcsState::kRedirects);
  std::string off = acs;
  off[6] = '\x01';  // Source validation alone redirects nothing.
  EXPECT_EQ(acs_of(bridge_with(tree, off)), AcsState::kOff);
  EXPECT_EQ(acs_of(bridge_with(tree, other)), AcsState::kOff);
  const std::string circle = {'\x01', '\0', '\x01', '\x10', 0, 0, 0, 0};
  EXPECT_EQ(acs_of(bridge_with(tree, circle)), AcsState::kOff);
}

TEST(Acs, IsUnknownWhereTheConfigurationIsCut) {
  SysTree tree;
  const std::string folder = "sys/devices/pci0000:80/0000:80:00.0";
  tree.file(folder + "/config", std::string(63, '\0'));
  EXPECT_EQ(acs_of(device_at(tree, folder, 0)), AcsState::kUnknown);
}

TEST(PciLinks, AreOfWholeTextsOnly) {
  SysTree tree;
  const std::string folder = "sys/devices/pci0000:80/0000:80:00.0";
  tree.file(folder + "/current_link_speed", "8.0 GT/s PCIe")
      .file(folder + "/current_link_width", "8");
  EXPECT_FALSE(links_of(device_at(tree, folder, 0)));
  tree.file(folder + "/max_link_speed", "Unknown").file(folder + "/max_link_width", "16");
  EXPECT_FALSE(links_of(device_at(tree, folder, 0)));
  tree.file(folder + "/max_link_speed", "32.0 GT/s PCIe");
  const auto links = links_of(device_at(tree, folder, 0));
  ASSERT_TRUE(links);
  EXPECT_EQ(links->now, (PciLink{8, 8}));
  EXPECT_EQ(links->most, (PciLink{32, 16}));
}

}  // namespace
}  // namespace feedrace::host
