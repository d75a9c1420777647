// SPDX-License-Identifier: Apache-2.0
#include "feedrace/core/cores.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <sstream>
#include <vector>

#include "feedrace/core/kernel_file.h"

namespace feedrace {
namespace {

/// A whole number at the start of a file.
std::optional<std::int64_t> number_in(const std::string& path) {
  std::istringstream text(kernel_file(path));
  std::int64_t value = 0;
  if (text >> value) return value;
  return std::nullopt;
}

/// The affinity mask's cores. The mask may be wider than the default type on large machines.
std::size_t affinity_cores() {
  for (std::size_t cpus = 1024; cpus <= (std::size_t{1} << 20); cpus *= 2) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    const bool known = sched_getaffinity(0, bytes, set) == 0;
    const int count = known ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (known) return static_cast<std::size_t>(std::max(1, count));
  }
  return static_cast<std::size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
}

/// The value of "NAME:   123 kB" in bytes.
std::optional<std::size_t> kilobytes_of(const std::string& text, const std::string& name) {
  const std::size_t at = text.find(name + ":");
  if (at == std::string::npos) return std::nullopt;
  std::istringstream rest(text.substr(at + name.size() + 1));
  std::size_t kilobytes = 0;
  if (rest >> kilobytes) return kilobytes * 1024;
  return std::nullopt;
}

}  // namespace

std::vector<std::string> control_groups(const std::string& root, const std::string& controller) {
  std::string own;
  std::istringstream lines(kernel_file(root + "proc/self/cgroup"));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    const bool matches = controller.empty()
                             ? names == ",,"
                             : names.find("," + controller + ",") != std::string::npos;
    if (matches) own = line.substr(second + 1);
  }
  const std::string mount = root + "sys/fs/cgroup" + (controller.empty() ? "" : "/" + controller);
  std::vector<std::string> folders;
  while (!own.empty() && own != "/") {
    folders.push_back(mount + own);
    own.erase(own.find_last_of('/'));
  }
  folders.push_back(mount);
  return folders;
}

std::optional<double> parse_cpu_max(const std::string& text) {
  std::istringstream fields(text);
  std::string quota_text;
  double period = 100'000;  // The kernel's default when only one field stands there.
  if (!(fields >> quota_text) || quota_text == "max") return std::nullopt;
  fields >> period;
  std::istringstream quota_field(quota_text);
  double quota = 0;
  if (!(quota_field >> quota) || quota <= 0 || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> quota_cores(const std::string& root) {
  std::optional<double> least;
  const auto take = [&](std::optional<double> cores) {
    if (cores && (!least || *cores < *least)) least = cores;
  };
  for (const std::string& folder : control_groups(root, "")) {
    take(parse_cpu_max(kernel_file(folder + "/cpu.max")));
  }
  for (const std::string& folder : control_groups(root, "cpu")) {
    const auto quota = number_in(folder + "/cpu.cfs_quota_us");
    const auto period = number_in(folder + "/cpu.cfs_period_us");
    if (quota && period && *quota > 0 && *period > 0) {
      take(static_cast<double>(*quota) / static_cast<double>(*period));
    }
  }
  return least;
}

std::size_t usable_cores(const std::string& root) {
  std::size_t cores = affinity_cores();
  if (const auto quota = quota_cores(root)) {
    cores = std::min(cores, static_cast<std::size_t>(std::ceil(*quota)));
  }
  return std::max<std::size_t>(1, cores);
}

std::optional<std::size_t> available_memory_bytes(const std::string& root) {
  std::optional<std::size_t> least =
      kilobytes_of(kernel_file(root + "proc/meminfo"), "MemAvailable");
  const auto take = [&](std::optional<std::int64_t> limit) {
    if (limit && *limit > 0 && (!least || static_cast<std::size_t>(*limit) < *least)) {
      least = static_cast<std::size_t>(*limit);
    }
  };
  for (const std::string& folder : control_groups(root, ""))
    take(number_in(folder + "/memory.max"));
  for (const std::string& folder : control_groups(root, "memory")) {
    take(number_in(folder + "/memory.limit_in_bytes"));
  }
  return least;
}

std::size_t anonymous_memory_bytes() {
  return kilobytes_of(kernel_file("/proc/self/status"), "RssAnon").value_or(0);
}

}  // namespace feedrace
