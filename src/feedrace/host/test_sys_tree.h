// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

#include "feedrace/testing/temp_dir.h"

namespace feedrace::host {

/// A small /sys of the test's own: folders, files of one line, and relative links as the kernel
/// lays them out. Paths are relative to the root.
class SysTree {
 public:
  std::string root() const { return folder_.path().string(); }

  SysTree& file(const std::string& path, const std::string& content) {
    folder_.write(path, content + "\n");
    return *this;
  }

  SysTree& folder(const std::string& path) {
    std::filesystem::create_directories(folder_.path() / path);
    return *this;
  }

  SysTree& link(const std::string& path, const std::string& target) {
    const auto from = folder_.path() / path;
    std::filesystem::create_directories(from.parent_path());
    std::filesystem::create_symlink(
        (folder_.path() / target).lexically_relative(from.parent_path()), from);
    return *this;
  }

  /// A block device in `folder` with its links by number ("259:0") and by name.
  SysTree& block(const std::string& folder, const std::string& number) {
    const std::string name = std::filesystem::path(folder).filename().string();
    return file(folder + "/dev", number)
        .link("sys/dev/block/" + number, folder)
        .link("sys/class/block/" + name, folder);
  }

  /// A controller on PCI, and its link by name. Returns the controller's folder.
  std::string nvme(const std::string& name, const std::string& pci, int node) {
    const std::string function = "sys/devices/pci0000:" + pci + "/0000:" + pci + ":01.0";
    const std::string controller = function + "/nvme/" + name;
    file(function + "/numa_node", std::to_string(node));
    file(controller + "/numa_node", std::to_string(node));
    file(controller + "/transport", "pcie");
    link("sys/class/nvme/" + name, controller);
    return controller;
  }

  /// What a device stacks on.
  SysTree& slave(const std::string& device, const std::string& below) {
    const std::string name = std::filesystem::path(below).filename().string();
    return link(device + "/slaves/" + name, below);
  }

 private:
  testing::TempDir folder_;
};

}  // namespace feedrace::host
