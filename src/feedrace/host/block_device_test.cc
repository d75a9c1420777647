// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/block_device.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/host/test_sys_tree.h"

namespace feedrace::host {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

FileSystem on_device(unsigned major_number, unsigned minor_number) {
  FileSystem file_system;
  file_system.device = makedev(major_number, minor_number);
  return file_system;
}

/// As btrfs: a number behind which there is nothing, and a source.
FileSystem on_source(const std::string& source) {
  FileSystem file_system = on_device(0, 39);
  file_system.mount_source = source;
  return file_system;
}

/// A whole NVMe disk below its controller.
std::string add_disk(SysTree& tree, const std::string& controller, const std::string& name,
                     const std::string& number) {
  const std::string disk = controller + "/" + name;
  tree.block(disk, number)
      .file(disk + "/queue/rotational", "0")
      .file(disk + "/queue/io_poll", "1")
      .file(disk + "/queue/scheduler", "[none] mq-deadline kyber");
  return disk;
}

const char* const kVirtual = "sys/devices/virtual/block/";

TEST(ParseCpuList, ReadsNumbersAndRanges) {
  EXPECT_THAT(parse_cpu_list("0-3,8,10-11\n"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(parse_cpu_list("5"), ElementsAre(5));
  EXPECT_THAT(parse_cpu_list("7,0-1,1"), ElementsAre(0, 1, 7));
  EXPECT_EQ(parse_cpu_list("0-65535").size(), 65536u);
}

TEST(ParseCpuList, IsEmptyForAnythingElse) {
  for (const char* text :
       {"", "\n", "-", ",", "a", "1-", "-1", "3-1", "1,,2", "1,", ",1", "1 2", "0-3:1/2", "0x1",
        "65536", "0-99999999999", "99999999999999999999999", "1-2-3", "1;2"}) {
    EXPECT_THAT(parse_cpu_list(text), IsEmpty()) << '"' << text << '"';
  }
}

TEST(FindBlockDevice, LeadsFromAPartitionToItsNvmeDisk) {
  SysTree tree;
  const std::string disk = add_disk(tree, tree.nvme("nvme0", "80", 1), "nvme0n1", "259:0");
  tree.block(disk + "/nvme0n1p2", "259:2").file(disk + "/nvme0n1p2/partition", "2");
  tree.file("sys/devices/system/node/node1/cpulist", "4-6,12");

  const BlockDevice found = find_block_device(on_device(259, 2), tree.root());
  EXPECT_EQ(found.name, "nvme0n1");
  EXPECT_THAT(found.disks, ElementsAre("nvme0n1"));
  EXPECT_EQ(found.numa_node, 1);
  EXPECT_THAT(found.node_cpus, ElementsAre(4, 5, 6, 12));
  EXPECT_FALSE(found.is_rotational);
  EXPECT_TRUE(found.has_polled_queues);
  EXPECT_EQ(found.scheduler, "none");
  EXPECT_EQ(found.transport, "pcie");
}

TEST(FindBlockDevice, TakesTheBusForAControllerThatDoesNotKnowItsNode) {
  SysTree tree;
  const std::string controller = tree.nvme("nvme0", "80", 1);
  tree.file(controller + "/numa_node", "-1");
  add_disk(tree, controller, "nvme0n1", "259:0");
  EXPECT_EQ(find_block_device(on_device(259, 0), tree.root()).numa_node, 1);
}

/// Two controllers of one subsystem, and the head that stands for both.
void add_multipath(SysTree& tree, int first_node, int second_node) {
  const std::string subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0";
  const std::string first = tree.nvme("nvme0", "10", first_node);
  const std::string second = tree.nvme("nvme1", "90", second_node);
  tree.block(subsystem + "/nvme0n1", "259:1")
      .file(subsystem + "/nvme0n1/queue/scheduler", "none")
      .folder(first + "/nvme0c0n1")
      .folder(second + "/nvme0c1n1")
      .link(subsystem + "/nvme0", first)
      .link(subsystem + "/nvme1", second);
}

TEST(FindBlockDevice, GoesThroughTheControllersOfAMultipathHead) {
  SysTree tree;
  add_multipath(tree, 1, 1);
  const BlockDevice found = find_block_device(on_device(259, 1), tree.root());
  EXPECT_EQ(found.name, "nvme0n1");
  EXPECT_THAT(found.disks, ElementsAre("nvme0", "nvme1"));
  EXPECT_EQ(found.numa_node, 1);
  EXPECT_EQ(found.transport, "pcie");
}

TEST(FindBlockDevice, KnowsNoNodeWhenPathsDiffer) {
  SysTree tree;
  add_multipath(tree, 0, 1);
  const BlockDevice found = find_block_device(on_device(259, 1), tree.root());
  EXPECT_THAT(found.disks, ElementsAre("nvme0", "nvme1"));
  EXPECT_EQ(found.numa_node, -1);
  EXPECT_THAT(found.node_cpus, IsEmpty());
}

TEST(FindBlockDevice, LeavesOutControllersWithoutThatNamespace) {
  SysTree tree;
  add_multipath(tree, 0, 1);
  const std::string third = tree.nvme("nvme2", "a0", 1);
  tree.link("sys/devices/virtual/nvme-subsystem/nvme-subsys0/nvme2", third);
  tree.folder(third + "/nvme0c2n2");
  EXPECT_THAT(find_block_device(on_device(259, 1), tree.root()).disks,
              ElementsAre("nvme0", "nvme1"));
}

TEST(FindBlockDevice, FindsAllDisksOfARaid) {
  SysTree tree;
  const std::string raid = std::string(kVirtual) + "md0";
  tree.block(raid, "9:0").file(raid + "/queue/scheduler", "none");
  for (const char* number : {"3", "1", "0", "2"}) {
    const std::string n(number);
    tree.slave(raid,
               add_disk(tree, tree.nvme("nvme" + n, "8" + n, 0), "nvme" + n + "n1", "259:" + n));
  }
  const BlockDevice found = find_block_device(on_device(9, 0), tree.root());
  EXPECT_EQ(found.name, "md0");
  EXPECT_THAT(found.disks, ElementsAre("nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1"));
  EXPECT_EQ(found.numa_node, 0);
  EXPECT_EQ(found.transport, "pcie");
  EXPECT_EQ(found.scheduler, "none");  // Of the disks: the RAID itself has none.
}

TEST(FindBlockDevice, GoesThroughEncryptionAPartitionAndARaid) {
  SysTree tree;
  const std::string disk = add_disk(tree, tree.nvme("nvme0", "80", 1), "nvme0n1", "259:0");
  const std::string part = disk + "/nvme0n1p1";
  const std::string raid = std::string(kVirtual) + "md127";
  const std::string raid_part = raid + "/md127p1";
  const std::string crypt = std::string(kVirtual) + "dm-0";
  tree.block(part, "259:1").file(part + "/partition", "1");
  tree.block(raid, "9:127").slave(raid, part);
  tree.block(raid_part, "259:9").file(raid_part + "/partition", "1");
  tree.block(crypt, "253:0").slave(crypt, raid_part);
  tree.folder("dev/mapper").link("dev/mapper/secret", "dev/dm-0");

  for (const FileSystem& file_system : {on_device(253, 0), on_source("/dev/mapper/secret")}) {
    const BlockDevice found = find_block_device(file_system, tree.root());
    EXPECT_EQ(found.name, "dm-0");
    EXPECT_THAT(found.disks, ElementsAre("nvme0n1"));
    EXPECT_EQ(found.numa_node, 1);
  }
}

TEST(FindBlockDevice, FollowsAnAbsoluteLinkUnderTheRoot) {
  SysTree tree;
  add_disk(tree, tree.nvme("nvme0", "80", 1), "nvme0n1", "259:0");
  tree.folder("dev/disk/by-label");
  std::filesystem::create_symlink("/dev/nvme0n1", tree.root() + "/dev/disk/by-label/data");
  EXPECT_EQ(find_block_device(on_source("/dev/disk/by-label/data"), tree.root()).name, "nvme0n1");
}

TEST(FindBlockDevice, TakesAVirtualDiskAsItIs) {
  SysTree tree;
  const std::string disk = "sys/devices/pci0000:00/0000:00:05.0/virtio2/block/vda";
  tree.block(disk, "254:0")
      .file(disk + "/queue/rotational", "1")
      .file(disk + "/queue/io_poll", "0")
      .file(disk + "/queue/scheduler", "none [mq-deadline] kyber");
  const BlockDevice found = find_block_device(on_device(254, 0), tree.root());
  EXPECT_EQ(found.name, "vda");
  EXPECT_THAT(found.disks, ElementsAre("vda"));
  EXPECT_EQ(found.numa_node, -1);
  EXPECT_TRUE(found.is_rotational);
  EXPECT_FALSE(found.has_polled_queues);
  EXPECT_EQ(found.scheduler, "mq-deadline");
  EXPECT_EQ(found.transport, "");
}

TEST(FindBlockDevice, EndsAtALoopDevice) {
  SysTree tree;
  const std::string loop = std::string(kVirtual) + "loop3";
  tree.block(loop, "7:3").folder(loop + "/slaves");
  const BlockDevice found = find_block_device(on_device(7, 3), tree.root());
  EXPECT_EQ(found.name, "loop3");
  EXPECT_THAT(found.disks, ElementsAre("loop3"));
  EXPECT_EQ(found.transport, "");
}

TEST(FindBlockDevice, TellsNvmeOverANetwork) {
  SysTree tree;
  const std::string controller = "sys/devices/virtual/nvme-fabrics/ctl/nvme4";
  tree.file(controller + "/numa_node", "-1").file(controller + "/transport", "tcp");
  tree.link("sys/class/nvme/nvme4", controller);
  add_disk(tree, controller, "nvme4n1", "259:7");
  const BlockDevice found = find_block_device(on_device(259, 7), tree.root());
  EXPECT_EQ(found.transport, "tcp");
  EXPECT_EQ(found.numa_node, -1);
}

TEST(FindBlockDevice, KnowsNothingOfMemoryAndNetworks) {
  const SysTree tree;
  for (const char* source : {"tmpfs", "server:/export", "overlay", "", "/dev/none", "/dev/"}) {
    const BlockDevice found = find_block_device(on_source(source), tree.root());
    EXPECT_EQ(found.name, "") << source;
    EXPECT_THAT(found.disks, IsEmpty());
  }
  EXPECT_EQ(find_block_device(on_device(8, 1), tree.root()).name, "");
}

TEST(FindBlockDevice, LeavesUnknownWhatIsMissingOrNonsense) {
  SysTree tree;
  const std::string disk = "sys/devices/pci0000:00/0000:00:05.0/ata1/block/sda";
  tree.block(disk, "8:0")
      .file(disk + "/queue/rotational", "yes")
      .file(disk + "/queue/scheduler", "none mq-deadline]")
      .file("sys/devices/pci0000:00/0000:00:05.0/numa_node", "a lot");
  tree.link("sys/class/block/sda9", disk + "/sda9");  // Leads nowhere.
  const BlockDevice found = find_block_device(on_device(8, 0), tree.root());
  EXPECT_EQ(found.name, "sda");
  EXPECT_FALSE(found.is_rotational);
  EXPECT_EQ(found.numa_node, -1);
  EXPECT_EQ(found.scheduler, "");
  EXPECT_EQ(find_block_device(on_source("/dev/sda9"), tree.root()).name, "");
}

TEST(FindBlockDevice, EndsInACircle) {
  SysTree tree;
  const std::string one = std::string(kVirtual) + "dm-0";
  const std::string two = std::string(kVirtual) + "dm-1";
  tree.block(one, "253:0").block(two, "253:1").slave(one, two).slave(two, one);
  const BlockDevice found = find_block_device(on_device(253, 0), tree.root());
  EXPECT_EQ(found.name, "dm-0");
  EXPECT_THAT(found.disks, IsEmpty());
  EXPECT_EQ(found.numa_node, -1);
}

TEST(FindBlockDevice, EndsInACircleOfLinks) {
  SysTree tree;
  tree.folder("dev").link("dev/a", "dev/b").link("dev/b", "dev/a");
  EXPECT_EQ(find_block_device(on_source("/dev/a"), tree.root()).name, "");
}

TEST(FindBlockDevice, AgreesWithThisMachine) {
  struct stat info{};
  ASSERT_EQ(stat("/", &info), 0);
  if (major(info.st_dev) == 0) GTEST_SKIP() << "/ is on no numbered device";
  const BlockDevice found = find_block_device(on_device(major(info.st_dev), minor(info.st_dev)));
  if (found.name.empty()) GTEST_SKIP() << "/sys does not show the device of /";
  EXPECT_FALSE(found.disks.empty());
}

}  // namespace
}  // namespace feedrace::host
