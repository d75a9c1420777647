// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/host/file_system.h"

namespace feedrace::host {

/// The block device under a file, and where in the machine its disks are plugged in.
struct BlockDevice {
  /// The whole device, not the partition: "nvme0n1", "md0", "vda". Empty: not on a block device
  /// (tmpfs, network), or unknown.
  std::string name;
  /// The physical ones beneath, sorted: disks ("nvme0n1", "sda") under dm, md and the like, and the
  /// controllers ("nvme0") that lead to a multipath head.
  std::vector<std::string> disks;
  int numa_node = -1;                  ///< The same for all disks, else -1: unknown or mixed.
  std::vector<std::size_t> node_cpus;  ///< CPUs of that node, sorted; empty: unknown.
  bool is_rotational = false;
  bool has_polled_queues = false;  ///< queue/io_poll is 1: reads may wait by polling.
  /// "none", "mq-deadline", ...; of the disks where the device stacks on some; empty: unknown.
  std::string scheduler;
  /// Of NVMe controllers: "pcie", "tcp", "rdma", "fc", "loop"; empty for others, or mixed.
  std::string transport;
};

/// By `file_system.device`, or by its mount source where that number is anonymous. Looks at sys/
/// and dev/ under `root` (tests). Never fails: what can't be read stays as above. Any thread.
BlockDevice find_block_device(const FileSystem& file_system, const std::string& root = "/");

/// "0-3,8,10-11" as sysfs lists CPUs and nodes: sorted, each once. Empty when any part of the text
/// is not such a list, or a number is above 65,535.
std::vector<std::size_t> parse_cpu_list(std::string_view text);

}  // namespace feedrace::host
