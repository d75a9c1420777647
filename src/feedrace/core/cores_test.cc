// SPDX-License-Identifier: Apache-2.0
#include "feedrace/core/cores.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace {
namespace {

/// A file system of the test's own, as the functions take it.
class FakeRoot {
 public:
  FakeRoot& with(const std::string& path, const std::string& content) {
    folder_.write(path, content);
    return *this;
  }
  std::string path() const { return folder_.path().string() + "/"; }

 private:
  testing::TempDir folder_;
};

TEST(ParseCpuMax, ReadsQuotaAndPeriod) {
  EXPECT_EQ(parse_cpu_max("150000 100000\n"), 1.5);
  EXPECT_EQ(parse_cpu_max("200000 50000"), 4.0);
  EXPECT_EQ(parse_cpu_max("50000"), 0.5);  // The kernel's default period.
}

TEST(ParseCpuMax, IsNothingWithoutALimit) {
  for (const char* text : {"max 100000\n", "max", "", "  \n", "abc 100000", "-1 100000", "0 100000",
                           "100000 0", "100000 -5"}) {
    EXPECT_EQ(parse_cpu_max(text), std::nullopt) << '"' << text << '"';
  }
}

TEST(UsableCores, IsTheAffinityMaskWithoutAQuota) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(usable_cores(FakeRoot().path()), static_cast<std::size_t>(CPU_COUNT(&set)));
}

TEST(UsableCores, FollowsTheAffinityOfTheThread) {
  std::size_t cores = 0;
  std::thread([&] {
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    for (std::size_t cpu = 0; CPU_COUNT(&one) == 0; ++cpu) {
      if (CPU_ISSET(cpu, &all)) CPU_SET(cpu, &one);
    }
    ASSERT_EQ(pthread_setaffinity_np(pthread_self(), sizeof one, &one), 0);
    cores = usable_cores(FakeRoot().path());
  }).join();
  EXPECT_EQ(cores, 1U);
}

TEST(UsableCores, RoundsTheQuotaOfItsOwnGroupUp) {
  FakeRoot root;
  root.with("proc/self/cgroup", "0::/a/b\n").with("sys/fs/cgroup/a/b/cpu.max", "10000 100000\n");
  EXPECT_EQ(usable_cores(root.path()), 1U);
  root.with("sys/fs/cgroup/a/b/cpu.max", "110000 100000\n");
  EXPECT_EQ(usable_cores(root.path()), std::min<std::size_t>(2, usable_cores(FakeRoot().path())));
}

TEST(UsableCores, TakesTheSmallestQuotaOnTheWayUp) {
  for (const std::string above : {"sys/fs/cgroup/a/cpu.max", "sys/fs/cgroup/cpu.max"}) {
    FakeRoot root;
    root.with("proc/self/cgroup", "0::/a/b\n").with("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
    root.with(above, "100000 100000\n");
    EXPECT_EQ(usable_cores(root.path()), 1U) << above;
  }
}

TEST(UsableCores, KnowsVersion1Groups) {
  FakeRoot root;
  root.with("proc/self/cgroup", "5:memory:/m\n3:cpu,cpuacct:/docker/x\n")
      .with("sys/fs/cgroup/cpu/docker/x/cpu.cfs_quota_us", "100000\n")
      .with("sys/fs/cgroup/cpu/docker/x/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cores(root.path()), 1U);
}

TEST(UsableCores, FindsTheMountedGroupInsideAContainer) {
  // The path is the host's; only the mount point is there.
  FakeRoot root;
  root.with("proc/self/cgroup", "0::/system.slice/docker-123.scope\n")
      .with("sys/fs/cgroup/cpu.max", "100000 100000\n");
  EXPECT_EQ(usable_cores(root.path()), 1U);
}

TEST(UsableCores, IgnoresAVersion1QuotaOfMinus1) {
  FakeRoot root;
  root.with("proc/self/cgroup", "3:cpu:/\n")
      .with("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
      .with("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(usable_cores(root.path()), usable_cores(FakeRoot().path()));
}

TEST(AvailableMemory, IsWhatTheKernelSays) {
  FakeRoot root;
  EXPECT_EQ(available_memory_bytes(root.path()), std::nullopt);
  root.with("proc/meminfo", "MemTotal:  9999 kB\nMemFree:   10 kB\nMemAvailable:    1000 kB\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 1'024'000U);
}

TEST(AvailableMemory, IsNoMoreThanTheGroupsLimit) {
  FakeRoot root;
  root.with("proc/meminfo", "MemAvailable: 1000 kB\n").with("proc/self/cgroup", "0::/a\n");
  root.with("sys/fs/cgroup/a/memory.max", "max\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 1'024'000U);
  root.with("sys/fs/cgroup/a/memory.max", "4096\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 4096U);
  root.with("sys/fs/cgroup/memory/memory.limit_in_bytes", "1000\n");
  EXPECT_EQ(available_memory_bytes(root.path()), 1000U);
}

TEST(AnonymousMemory, GrowsWithThePagesThatAreTouched) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const std::size_t before = anonymous_memory_bytes();
  const HostMemory memory(kBytes);
  memory.touch();
  EXPECT_GE(anonymous_memory_bytes(), before + kBytes * 9 / 10);
}

}  // namespace
}  // namespace feedrace
