// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace feedrace::host {

/// Time of CPUs since the machine started, in seconds, summed over them.
struct CpuSeconds {
  double busy = 0;   ///< Everybody's work, this process's too.
  double idle = 0;   ///< With nothing to run, or waiting for I/O.
  double steal = 0;  ///< Given to other machines by the hypervisor.
  std::size_t cpu_count = 0;
};
/// Of /proc/stat, for these CPUs; empty: all.
std::optional<CpuSeconds> parse_cpu_seconds(std::string_view stat,
                                            const std::vector<std::size_t>& cpus);

/// Seconds in which somebody waited: "some ... total=123" (microseconds) of a pressure file.
std::optional<double> parse_pressure_seconds(std::string_view text);

/// What a control group's CPU quota did, of cpu.stat, version 1 or 2.
struct Throttling {
  std::uint64_t periods = 0;
  std::uint64_t throttled_periods = 0;
  double throttled_seconds = 0;
};
std::optional<Throttling> parse_throttling(std::string_view cpu_stat);

/// A block device's counters of /proc/diskstats, those of reads.
struct DiskCounters {
  std::string name;
  std::uint64_t reads = 0;
  std::uint64_t read_bytes = 0;
  double read_seconds = 0;      ///< Summed over reads.
  double busy_seconds = 0;      ///< With anything in flight.
  double weighted_seconds = 0;  ///< Summed over all requests: in flight on average, times seconds.
};
/// 11 numbers behind the name, or the 15 or 17 of newer kernels; a sector is 512 bytes always.
std::optional<DiskCounters> parse_disk(std::string_view diskstats, std::string_view name);

/// Of /proc/meminfo.
struct MemoryFigures {
  std::uint64_t page_cache_bytes = 0;  ///< Cached and buffers.
  std::uint64_t available_bytes = 0;
};
std::optional<MemoryFigures> parse_memory(std::string_view meminfo);

/// Counters of machine and process at a moment. What can't be read is not set.
struct HostCounters {
  double at_seconds = 0;               ///< Of a steady clock.
  double own_cpu_seconds = 0;          ///< Of this process, all threads.
  std::optional<CpuSeconds> cpu;       ///< Of the CPUs that this process may use.
  std::optional<double> cpu_pressure;  ///< Of the own control group where it has one (version 2).
  std::optional<double> io_pressure;
  std::optional<double> memory_pressure;
  std::optional<Throttling> throttling;     ///< Of the group, own or above, that is throttled most.
  std::optional<std::uint64_t> swapped_in;  ///< Pages, of the machine.
  std::optional<std::uint64_t> own_read_bytes;  ///< That devices gave for this process.
  std::vector<DiskCounters> disks;              ///< Of those asked for that are there.
};

/// About ten small files of /proc and /sys under `root`: a millisecond at most. Any thread.
HostCounters read_host_counters(const std::vector<std::string>& disks,
                                const std::string& root = "/");

/// What happened between two moments.
struct HostRates {
  double seconds = 0;
  double own_cpu_cores = 0;               ///< Cores that this process used, on average.
  std::optional<double> cpu_busy_share;   ///< Of the usable CPUs' time.
  std::optional<double> other_cpu_cores;  ///< Usable cores that other processes had.
  std::size_t cpu_count = 0;              ///< Usable by affinity; 0: unknown.
  std::optional<double> steal_share;      ///< Of the usable CPUs' time.
  std::optional<double> cpu_pressure;     ///< Shares of the time in which somebody waited.
  std::optional<double> io_pressure;
  std::optional<double> memory_pressure;
  std::optional<double> throttled_period_share;  ///< Nothing: no quota, or not used.
  std::optional<double> swapped_in_a_second;     ///< Pages.
  std::optional<double> own_read_bytes;          ///< That devices gave for this process.
  /// Of all disks together; nothing: none is known.
  struct Disk {
    std::string name;  ///< "nvme0n1", or "nvme0n1+nvme1n1".
    double reads_a_second = 0;
    double bytes_a_second = 0;
    double mean_read_bytes = 0;
    double read_ms = 0;     ///< Mean latency.
    double queue_mean = 0;  ///< Requests in flight.
    double busy_share = 0;  ///< Of the busiest. No measure of saturation where a drive has queues.
  };
  std::optional<Disk> disk;
};
HostRates rates_between(const HostCounters& before, const HostCounters& after);

}  // namespace feedrace::host
