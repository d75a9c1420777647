// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/gpu_distance.h"

#include <gtest/gtest.h>

#include "feedrace/host/test_sys_tree.h"
#include "feedrace/pipeline/explain.h"

namespace feedrace::pipeline {
namespace {

/// A GPU at 81:00.0 of socket 1, a drive beside it, another on socket 0.
class TwoSockets : public ::testing::Test {
 protected:
  TwoSockets() {
    gpu("sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0", 1);
    drive("nvme0n1", "sys/devices/pci0000:80/0000:80:02.0/0000:82:00.0", 1);
    drive("nvme1n1", "sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0", 0);
  }
  void function(const std::string& folder, const char* class_code, int node) {
    tree.file(folder + "/class", class_code)
        .file(folder + "/vendor", "0x10de")
        .file(folder + "/numa_node", std::to_string(node));
    const std::string address = folder.substr(folder.rfind('/') + 1);
    tree.link("sys/bus/pci/devices/" + address, folder);
  }
  void gpu(const std::string& folder, int node) { function(folder, "0x030200", node); }
  void drive(const std::string& name, const std::string& folder, int node) {
    function(folder, "0x010802", node);
    const std::string block = folder + "/nvme/" + name.substr(0, 5) + "/" + name;
    tree.folder(block).link("sys/block/" + name, block).link("sys/class/block/" + name, block);
  }
  host::SysTree tree;
};

TEST_F(TwoSockets, ADriveOfTheOtherSocketIsFar) {
  const GpuDistance near = gpu_distance("00000000:81:00.0", {"nvme0n1"}, tree.root());
  EXPECT_FALSE(near.is_far);
  EXPECT_EQ(near.path, "same host bridge");
  const GpuDistance far = gpu_distance("00000000:81:00.0", {"nvme0n1", "nvme1n1"}, tree.root());
  EXPECT_TRUE(far.is_far);
  EXPECT_EQ(far.path, "across sockets");
  // What the verdict makes of it, where reads into that GPU's memory limit.
  verdict::Facts facts;
  facts.batches = 100;
  facts.wait_share = 0.7;
  facts.is_direct = true;
  facts.is_gpu_far = far.is_far;
  facts.gpu_path = far.path;
  EXPECT_EQ(explain(facts, {}, Pipeline{}).limit, Limit::kGpuTopology);
  facts.is_gpu_far = near.is_far;
  EXPECT_EQ(explain(facts, {}, Pipeline{}).limit, Limit::kStorage);
}

TEST_F(TwoSockets, WhatIsNotThereIsUnknown) {
  for (const auto& found : {gpu_distance("00000000:99:00.0", {"nvme1n1"}, tree.root()),
                            gpu_distance("00000000:81:00.0", {"vda"}, tree.root()),
                            gpu_distance("00000000:81:00.0", {}, tree.root()),
                            gpu_distance("", {"nvme1n1"}, "/nowhere")}) {
    EXPECT_FALSE(found.is_far);
    EXPECT_EQ(found.path, "");
  }
}

TEST(PciAddress, IsThatOfTheOrdinal) {
  const std::string facts =
      R"({"devices": [{"ordinal": 0, "pci": "00000000:17:00.0"}, {"ordinal": 1, "pci": "00000000:81:00.0"}]})";
  EXPECT_EQ(pci_address_of(facts, 1), "00000000:81:00.0");
  EXPECT_EQ(pci_address_of(facts, 2), "");
  for (const char* text : {"", "[]", "{}", R"({"devices": [3]})", R"({"devices": 3})"}) {
    EXPECT_EQ(pci_address_of(text, 0), "");
  }
}

}  // namespace
}  // namespace feedrace::pipeline
