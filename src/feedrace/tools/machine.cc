// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/machine.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>

#include <fmt/format.h>

#include "feedrace/core/kernel_file.h"

namespace feedrace::tools {
namespace {

std::string cpu_model() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown";
}

std::string file_system_of(const std::string& path) {
  // Magic numbers of linux/magic.h and, for XFS and ZFS, of their own headers.
  const std::map<std::uint32_t, std::string> names = {
      {0xEF53, "ext4"},      {0x58465342, "xfs"},       {0x9123683E, "btrfs"},
      {0x01021994, "tmpfs"}, {0x794C7630, "overlayfs"}, {0x6969, "nfs"},
      {0x65735546, "fuse"},  {0x0BD00BD0, "lustre"},    {0x00C36400, "ceph"},
      {0x47504653, "gpfs"},  {0x2FC12FC1, "zfs"},
  };
  struct statfs status{};
  if (statfs(path.c_str(), &status) != 0) return "unknown";
  const auto magic = static_cast<std::uint32_t>(status.f_type);
  const auto found = names.find(magic);
  return found != names.end() ? found->second : fmt::format("{:#x}", magic);
}

}  // namespace

Machine describe_machine(const std::string& data_path) {
  Machine machine;
  machine.cpu = cpu_model();
  utsname kernel{};
  machine.kernel = uname(&kernel) == 0 ? kernel.release : "unknown";
  machine.file_system = file_system_of(data_path);
  return machine;
}

double process_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

std::size_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

double seconds_since_process_start() {
  constexpr int kStartTimeField = 22;  // proc(5), /proc/pid/stat: clock ticks since boot.
  constexpr int kFirstFieldBehindName = 3;
  const std::string line = kernel_file("/proc/self/stat");
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string field;
  for (int i = kFirstFieldBehindName; i <= kStartTimeField && fields >> field; ++i) {
  }
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  const double up = static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
  return up - std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace feedrace::tools
