// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>

#include <climits>
#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/host/block_device.h"
#include "feedrace/host/sys_text.h"

namespace feedrace::host {

bool bind_thread(std::span<const std::size_t> cpus) noexcept {
  // The mask may be wider than the default type on large machines.
  for (std::size_t count = 1024; count <= (std::size_t{1} << 20); count *= 2) {
    cpu_set_t* allowed = CPU_ALLOC(count);
    cpu_set_t* wanted = CPU_ALLOC(count);
    const std::size_t bytes = CPU_ALLOC_SIZE(count);
    const bool is_known =
        allowed != nullptr && wanted != nullptr && sched_getaffinity(0, bytes, allowed) == 0;
    bool is_bound = false;
    if (is_known) {
      CPU_ZERO_S(bytes, wanted);
      for (const std::size_t cpu : cpus) {
        if (cpu < count && CPU_ISSET_S(cpu, bytes, allowed)) CPU_SET_S(cpu, bytes, wanted);
      }
      is_bound = CPU_COUNT_S(bytes, wanted) > 0 && sched_setaffinity(0, bytes, wanted) == 0;
    }
    CPU_FREE(allowed);
    CPU_FREE(wanted);
    if (is_known) return is_bound;
  }
  return false;
}

Result<void> prefer_node(std::span<std::byte> memory, int node) {
  constexpr std::size_t kMostNodes = 1024;  // As many as Linux can be built for.
  constexpr std::size_t kWordBits = sizeof(unsigned long) * CHAR_BIT;
  if (node < 0 || static_cast<std::size_t>(node) >= kMostNodes) {
    return Failure{
        ErrorCode::kUnsupported,
        fmt::format("memory on NUMA node {}: there is no such node; leave it out", node)};
  }
  const auto bit = static_cast<std::size_t>(node);
  std::array<unsigned long, kMostNodes / kWordBits> nodes{};
  nodes[bit / kWordBits] = 1UL << (bit % kWordBits);
  // The kernel takes one bit less than it is told of.
  if (syscall(SYS_mbind, memory.data(), memory.size(), MPOL_PREFERRED, nodes.data(), kMostNodes + 1,
              0) == 0) {
    return {};
  }
  const char* remedy = errno == EPERM ? "allow mbind in the container, or give it CAP_SYS_NICE"
                                      : "see the nodes of numactl --hardware";
  return Failure{ErrorCode::kUnsupported, fmt::format("memory on NUMA node {}: refused ({}); {}",
                                                      node, errno_text("mbind", errno), remedy)};
}

std::size_t node_count(const std::string& root) {
  const auto path = std::filesystem::path(root) / "sys/devices/system/node/online";
  return std::max<std::size_t>(1, parse_cpu_list(text_of(path)).size());
}

}  // namespace feedrace::host
