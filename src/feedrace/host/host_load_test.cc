// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/host_load.h"

#include <cstdint>

#include <gtest/gtest.h>

#include "feedrace/host/test_sys_tree.h"

namespace feedrace::host {
namespace {

constexpr const char* kBefore =
    " 259       0 nvme0n1 1000 0 80000 500 10 0 80 5 0 400 505 0 0 0 0 2 1\n"
    " 259       1 nvme0n1p1 900 0 79000 480 10 0 80 5 0 390 485 0 0 0 0 0 0\n"
    "   7       0 loop0 5 0 10 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";
constexpr const char* kAfter =
    " 259       0 nvme0n1 33000 0 8272000 64500 10 0 80 5 12 2390 64505 0 0 0 0 2 1\n"
    " 259       1 nvme0n1p1 32900 0 8271000 64480 10 0 80 5 12 2380 64485 0 0 0 0 0 0\n"
    "   7       0 loop0 5 0 10 0 0 0 0 0 0 0 0 0 0 0 0 0 0\n";

TEST(HostLoad, RatesOfADisk) {
  HostCounters before;
  HostCounters after;
  after.at_seconds = 2;
  before.disks.push_back(parse_disk(kBefore, "nvme0n1").value());
  after.disks.push_back(parse_disk(kAfter, "nvme0n1").value());
  const auto disk = rates_between(before, after).disk.value();
  EXPECT_EQ(disk.name, "nvme0n1");
  EXPECT_DOUBLE_EQ(disk.reads_a_second, 16000);
  EXPECT_DOUBLE_EQ(disk.bytes_a_second / (1 << 20), 2000);
  EXPECT_DOUBLE_EQ(disk.mean_read_bytes / 1024, 128);
  EXPECT_DOUBLE_EQ(disk.read_ms, 2);
  EXPECT_NEAR(disk.busy_share, 0.995, 1e-9);
  EXPECT_DOUBLE_EQ(disk.queue_mean, 32);
}

TEST(HostLoad, ADiskThatIsGoneIsNoDisk) {
  EXPECT_FALSE(parse_disk(kBefore, "nvme1n1"));
  EXPECT_FALSE(parse_disk("259 0 nvme0n1 1 2", "nvme0n1"));
  HostCounters before;
  before.disks.push_back(parse_disk(kBefore, "nvme0n1").value());
  HostCounters after;
  after.at_seconds = 1;
  EXPECT_FALSE(rates_between(before, after).disk);
}

TEST(HostLoad, CountersThatWereResetGiveNothingNegative) {
  HostCounters before;
  HostCounters after;
  after.at_seconds = 2;
  before.disks.push_back(parse_disk(kAfter, "nvme0n1").value());
  after.disks.push_back(parse_disk(kBefore, "nvme0n1").value());
  EXPECT_EQ(rates_between(before, after).disk.value().reads_a_second, 0);
}

TEST(HostLoad, SecondsOfTheUsableCpus) {
  constexpr const char* kStat =
      "cpu  300 0 100 1000 200 0 0 50 70 0\n"
      "cpu0 100 0 100 400 100 0 0 50 70 0\n"
      "cpu1 200 0 0 600 100 0 0 0 0 0\n"
      "intr 1 2 3\n";
  const auto one = parse_cpu_seconds(kStat, {0}).value();
  EXPECT_DOUBLE_EQ(one.busy, 2);
  EXPECT_DOUBLE_EQ(one.idle, 5);
  EXPECT_DOUBLE_EQ(one.steal, 0.5);
  EXPECT_EQ(parse_cpu_seconds(kStat, {}).value().cpu_count, 2U);
  EXPECT_FALSE(parse_cpu_seconds("", {}));
  EXPECT_FALSE(parse_cpu_seconds("cpu  300 0 100 1000 200\n", {}));
}

TEST(HostLoad, ThrottlingOfBothVersions) {
  const auto v2 =
      parse_throttling("usage_usec 5\nnr_periods 10\nnr_throttled 4\nthrottled_usec 2500000\n");
  EXPECT_EQ(v2.value().throttled_periods, 4U);
  EXPECT_DOUBLE_EQ(v2.value().throttled_seconds, 2.5);
  const auto v1 = parse_throttling("nr_periods 10\nnr_throttled 4\nthrottled_time 1500000000\n");
  EXPECT_DOUBLE_EQ(v1.value().throttled_seconds, 1.5);
  EXPECT_FALSE(parse_throttling("usage_usec 5\n"));
}

TEST(HostLoad, PressureAndMemory) {
  EXPECT_DOUBLE_EQ(
      parse_pressure_seconds(
          "some avg10=0.00 avg60=0.66 avg300=3.50 total=2500000\nfull avg10=0 total=1\n")
          .value(),
      2.5);
  EXPECT_FALSE(parse_pressure_seconds("some avg10=0.00\n"));
  const auto memory = parse_memory(
      "MemTotal:       24571880 kB\nMemFree:          812340 kB\nMemAvailable:   21034512 kB\n"
      "Buffers:          120004 kB\nCached:         19876540 kB\nSwapCached:            0 kB\n");
  EXPECT_EQ(memory.value().page_cache_bytes, std::uint64_t{19996544} * 1024);
  EXPECT_EQ(memory.value().available_bytes, std::uint64_t{21034512} * 1024);
}

TEST(HostLoad, ReadsATreeOfItsOwn) {
  SysTree tree;
  tree.file("proc/stat", "cpu0 100 0 100 400 100 0 0 50 70 0")
      .file("proc/self/cgroup", "0::/job")
      .file("sys/fs/cgroup/job/cpu.stat", "nr_periods 10\nnr_throttled 4\nthrottled_usec 7")
      .file("sys/fs/cgroup/job/cpu.pressure", "some avg10=0 avg60=0 avg300=0 total=3000000")
      .file("proc/pressure/io", "some avg10=0 avg60=0 avg300=0 total=1000000")
      .file("proc/vmstat", "pswpin 12\npswpout 3")
      .file("proc/self/io", "rchar: 1\nread_bytes: 4096")
      .file("proc/diskstats", kAfter);
  const HostCounters found = read_host_counters({"nvme0n1", "nvme9n1"}, tree.root() + "/");
  EXPECT_EQ(found.throttling.value().throttled_periods, 4U);
  EXPECT_EQ(found.cpu_pressure, 3.0);
  EXPECT_EQ(found.io_pressure, 1.0);
  EXPECT_FALSE(found.memory_pressure);
  EXPECT_EQ(found.swapped_in, 12U);
  EXPECT_EQ(found.own_read_bytes, 4096U);
  ASSERT_EQ(found.disks.size(), 1U);
}

TEST(HostLoad, AnEmptyRootIsUnknownEverywhere) {
  const SysTree tree;
  const HostCounters found = read_host_counters({"nvme0n1"}, tree.root() + "/");
  EXPECT_FALSE(found.cpu || found.cpu_pressure || found.throttling || found.swapped_in ||
               found.own_read_bytes);
  EXPECT_TRUE(found.disks.empty());
  const HostRates rates = rates_between(found, read_host_counters({}, tree.root() + "/"));
  EXPECT_FALSE(rates.steal_share || rates.other_cpu_cores || rates.disk);
}

}  // namespace
}  // namespace feedrace::host
