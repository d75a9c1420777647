// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/host/test_sys_tree.h"

namespace feedrace::host {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::size_t> own_cpus() {
  cpu_set_t set;
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<std::size_t> cpus;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

TEST(BindThread, TakesThoseThatMayBeUsed) {
  const auto before = own_cpus();
  std::thread([&] {
    EXPECT_TRUE(bind_thread(std::vector<std::size_t>{before.back(), 1023, 5'000'000}));
    EXPECT_THAT(own_cpus(), ElementsAre(before.back()));
  }).join();
  EXPECT_EQ(own_cpus(), before);  // The thread alone.
}

TEST(BindThread, NeverWidens) {
  const auto all = own_cpus();
  if (all.size() < 2) GTEST_SKIP() << "needs two CPUs";
  std::thread([&] {
    ASSERT_TRUE(bind_thread(std::vector<std::size_t>{all[0]}));
    EXPECT_TRUE(bind_thread(all));
    EXPECT_THAT(own_cpus(), ElementsAre(all[0]));
  }).join();
}

TEST(BindThread, KeepsTheAffinityWhenNothingIsLeft) {
  std::thread([&] {
    const auto before = own_cpus();
    EXPECT_FALSE(bind_thread({}));
    EXPECT_FALSE(bind_thread(std::vector<std::size_t>{1'000'000}));
    EXPECT_EQ(own_cpus(), before);
  }).join();
}

/// Pages that nobody has touched.
class Pages {
 public:
  Pages()
      : memory_(static_cast<std::byte*>(
            mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Pages() { munmap(memory_, kBytes); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  std::span<std::byte> span() const { return {memory_, kBytes}; }

 private:
  static constexpr std::size_t kBytes = 64 * 1024;
  std::byte* memory_;
};

TEST(PreferNode, SetsThePolicyOrSaysWhyNot) {
  const Pages pages;
  const auto done = prefer_node(pages.span(), 0);
  if (!done) {
    EXPECT_EQ(done.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(done.error().message, HasSubstr("mbind"));
    GTEST_SKIP() << done.error().message;
  }
  int policy = -1;
  unsigned long nodes[16] = {};
  if (syscall(SYS_get_mempolicy, &policy, nodes, 1025, pages.span().data(), MPOL_F_ADDR) != 0) {
    GTEST_SKIP() << "policies can't be read here";
  }
  EXPECT_EQ(policy, MPOL_PREFERRED);
  EXPECT_EQ(nodes[0], 1u);
}

TEST(PreferNode, RefusesNodesThatAreNot) {
  const Pages pages;
  for (const int node : {-1, 1000, 1024, 1 << 30}) {
    const auto done = prefer_node(pages.span(), node);
    ASSERT_FALSE(done) << node;
    EXPECT_EQ(done.error().code, ErrorCode::kUnsupported);
    EXPECT_THAT(done.error().message, HasSubstr(std::to_string(node)));
  }
}

TEST(NodeCount, CountsThoseOnline) {
  EXPECT_EQ(node_count(SysTree().file("sys/devices/system/node/online", "0-1,4").root()), 3u);
  EXPECT_EQ(node_count(SysTree().root()), 1u);
  EXPECT_GE(node_count(), 1u);
}

}  // namespace
}  // namespace feedrace::host
