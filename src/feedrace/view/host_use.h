// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json.hpp>

namespace feedrace::view {

/// Counters of a block device since it came, of /proc/diskstats.
struct DiskCounters {
  std::uint64_t reads = 0;
  std::uint64_t merged_reads = 0;  ///< Joined with another before they went to the device.
  std::uint64_t read_bytes = 0;
  std::uint64_t read_ms = 0;  ///< Summed over reads.
  std::uint64_t writes = 0;
  std::uint64_t written_bytes = 0;
  std::uint64_t write_ms = 0;
  std::uint64_t busy_ms = 0;    ///< With any request in it.
  std::uint64_t queued_ms = 0;  ///< Summed over requests.
};

/// Of /proc/stat, in ticks.
struct CpuCounters {
  std::uint64_t busy = 0;
  std::uint64_t waiting = 0;  ///< Idle with a read or write under way.
  std::uint64_t stolen = 0;   ///< Wanted, and given to another virtual machine.
  std::uint64_t all = 0;
};

/// What the kernel counts of this machine at a moment. What can't be read is not there.
struct HostUse {
  std::map<std::string, DiskCounters> disks;  ///< Whole devices, not partitions.
  std::optional<CpuCounters> cpu;
  /// Share of the last 10 s in which somebody waited for it, in per cent: "cpu", "io", "memory".
  std::map<std::string, double> pressure;
};

/// Reads proc/ and sys/ under `root`.
HostUse read_host_use(const std::string& root = "/");

/// Bytes that a process has had from devices, which page-cache hits are not; nothing where this
/// user may not ask.
std::optional<std::uint64_t> device_bytes_of(std::uint64_t pid, const std::string& root = "/");

/// What happened between two moments, as JSON: "cpu" with shares in [0, 1] or null, "pressure",
/// "devices" with those that did anything first.
nlohmann::ordered_json use_between(const HostUse& before, const HostUse& after, double seconds);

}  // namespace feedrace::view
