// SPDX-License-Identifier: Apache-2.0
// What a loader asks of the machine, on machines that are laid out in a temporary folder.

#include "feedrace/pipeline/storage_plan.h"

#include <sys/stat.h>
#include <sys/sysmacros.h>

#include <memory>
#include <string>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/pipeline/test_sets.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::pipeline {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A machine of two nodes whose NVMe drive is plugged in at node 1, and holds the test's files.
class TwoNodes : public ::testing::Test {
 protected:
  void SetUp() override {
    options_ = small_options(write_shards(data_, 12, 2));
    dataset_ = formats::open_dataset(options_.sources, options_.format);
    struct stat info{};
    ASSERT_EQ(stat(dataset_->shards()[0].c_str(), &info), 0);
    number_ = fmt::format("{}:{}", major(info.st_dev), minor(info.st_dev));
    const std::string pci = "sys/devices/pci0000:80/0000:80:01.0";
    const std::string drive = pci + "/nvme/nvme3/nvme3n1";
    put(drive + "/dev", number_);
    put(drive + "/queue/io_poll", "0");
    put(pci + "/numa_node", "1");
    put(pci + "/nvme/nvme3/numa_node", "1");
    put(pci + "/nvme/nvme3/transport", "pcie");
    link("sys/dev/block/" + number_, drive);
    link("sys/class/block/nvme3n1", drive);
    link("sys/class/nvme/nvme3", pci + "/nvme/nvme3");
    put("sys/devices/system/node/online", "0-1");
    put("sys/devices/system/node/node0/cpulist", "0-3");
    put("sys/devices/system/node/node1/cpulist", "4-7");
  }
  void put(const std::string& path, const std::string& text) { root_.write(path, text + "\n"); }
  void link(const std::string& path, const std::string& target) {
    const auto from = root_.path() / path;
    std::filesystem::create_directories(from.parent_path());
    std::filesystem::create_directory_symlink(root_.path() / target, from);
  }
  StoragePlan plan() {
    return plan_storage(options_, *dataset_, std::make_shared<storage::FallbackLog>(),
                        root_.path().string());
  }

  testing::TempDir data_;
  testing::TempDir root_;
  LoaderOptions options_;
  std::unique_ptr<formats::Dataset> dataset_;
  std::string number_;
};

TEST_F(TwoNodes, TheReaderRunsOnTheNodeOfItsDrive) {
  if (number_.starts_with("0:")) GTEST_SKIP() << "temporary files lie on no block device here";
  const StoragePlan storage = plan();
  EXPECT_THAT(storage.reason, HasSubstr("on nvme3n1"));
  EXPECT_THAT(storage.nodes, ElementsAre(1));
  EXPECT_THAT(storage.cpus, ElementsAre(ElementsAre(4, 5, 6, 7)));
}

TEST_F(TwoNodes, NothingIsBoundOnAMachineOfOneNode) {
  put("sys/devices/system/node/online", "0");
  const StoragePlan storage = plan();
  EXPECT_THAT(storage.nodes, ElementsAre(-1));
  EXPECT_THAT(storage.cpus, ElementsAre(IsEmpty()));
}

TEST_F(TwoNodes, ANodeThatIsNotThereIsSaidAndReadingGoesOn) {
  StoragePlan storage = plan();
  storage.nodes = {63};  // This machine has no such node.
  storage.cpus = {{4095}};
  storage::FallbackLog log;
  Sizing sizing;
  sizing.buffers = {4, 4096, 4};
  const auto readers = make_readers(storage, sizing, log);
  ASSERT_EQ(readers.size(), 1U);
  EXPECT_EQ(readers[0].buffers->free_count(), 4U);
  EXPECT_EQ(log.counts().size(), 1U);
}

}  // namespace
}  // namespace feedrace::pipeline
