// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/block_device.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/host/sys_text.h"

namespace feedrace::host {
namespace {

namespace fs = std::filesystem;

/// Without links; empty when there is no such thing.
fs::path real(const fs::path& path) {
  std::error_code missing;
  fs::path found = fs::canonical(path, missing);
  return missing ? fs::path() : found;
}

/// Names in a folder, sorted; none when it can't be read.
std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code ended;
  for (fs::directory_iterator entry(folder, ended), end; !ended && entry != end;
       entry.increment(ended)) {
    names.push_back(entry->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// `name` is `prefix` and a number: "nvme0", but not "nvme0n1" or "nvme-subsys0".
bool is_numbered(std::string_view name, std::string_view prefix) {
  return name.size() > prefix.size() && name.starts_with(prefix) &&
         name.find_first_not_of("0123456789", prefix.size()) == std::string_view::npos;
}

/// "nvme3n1" is {"nvme3", "n1"}; nothing for other names.
std::optional<std::pair<std::string, std::string>> split_head(const std::string& name) {
  constexpr std::size_t kPrefix = 4;
  const std::size_t at = name.find('n', kPrefix);
  if (!name.starts_with("nvme") || at == std::string::npos) return std::nullopt;
  return std::pair(name.substr(0, at), name.substr(at));
}

/// A partition's folder lies in that of its disk.
fs::path whole_device(const fs::path& folder) {
  std::error_code unknown;
  return fs::exists(folder / "partition", unknown) ? folder.parent_path() : folder;
}

/// What `path` leads to, where links that begin with / begin at `root`.
fs::path resolve_under(const fs::path& root, fs::path path) {
  constexpr int kMostLinks = 40;
  for (int i = 0; i < kMostLinks; ++i) {
    std::error_code no_link;
    const fs::path target = fs::read_symlink(path, no_link);
    if (no_link) break;
    path = target.is_absolute() ? root / target.relative_path() : path.parent_path() / target;
  }
  return path.lexically_normal();
}

fs::path device_folder(const FileSystem& file_system, const fs::path& root) {
  const auto number = static_cast<dev_t>(file_system.device);
  if (major(number) != 0) {
    const std::string name = fmt::format("{}:{}", major(number), minor(number));
    if (fs::path folder = real(root / "sys/dev/block" / name); !folder.empty()) return folder;
  }
  if (!file_system.mount_source.starts_with("/dev/")) return {};
  const fs::path source = root / fs::path(file_system.mount_source).relative_path();
  return real(root / "sys/class/block" / resolve_under(root, source).filename());
}

/// Folders of the devices at the bottom. `seen` ends a circle, which a broken tree may have.
void gather_bottom(const fs::path& device, std::set<fs::path>& seen, std::set<fs::path>& bottom) {
  if (device.empty() || !seen.insert(device).second) return;
  const auto slaves = names_in(device / "slaves");
  if (slaves.empty()) bottom.insert(device);
  for (const std::string& slave : slaves) {
    const fs::path folder = real(device / "slaves" / slave);
    if (!folder.empty()) gather_bottom(whole_device(folder), seen, bottom);
  }
}

/// The controllers of an NVMe multipath head, which has no place of its own in the machine: its
/// folder lies in that of its subsystem, beside links to them.
std::vector<fs::path> controllers_of(const fs::path& head, const fs::path& root) {
  const fs::path subsystem = head.parent_path();
  if (!is_numbered(subsystem.filename().native(), "nvme-subsys")) return {};
  std::vector<fs::path> all;
  std::vector<fs::path> leading;  // Those with a path to this very namespace.
  for (const std::string& name : names_in(subsystem)) {
    if (!is_numbered(name, "nvme")) continue;
    fs::path controller = real(root / "sys/class/nvme" / name);
    if (controller.empty()) controller = real(subsystem / name);
    if (controller.empty()) continue;
    all.push_back(controller);
    const auto parts = split_head(head.filename().string());
    const std::string path_name =
        parts ? fmt::format("{}c{}{}", parts->first, name.substr(4), parts->second) : "";
    std::error_code unknown;
    if (parts && fs::exists(controller / path_name, unknown)) leading.push_back(controller);
  }
  return leading.empty() ? all : leading;
}

/// The nearest that is known, from the device up to the bus that it hangs on.
int numa_node_of(const fs::path& device) {
  for (fs::path folder = device; folder.has_relative_path(); folder = folder.parent_path()) {
    const auto node = number_of(folder / "numa_node");
    if (node && *node >= 0 && *node <= 0xffff) return static_cast<int>(*node);
    if (folder.filename() == "devices") break;
  }
  return -1;
}

std::string transport_of(const fs::path& device) {
  for (fs::path folder = device; folder.has_relative_path(); folder = folder.parent_path()) {
    if (is_numbered(folder.filename().native(), "nvme")) return word_of(folder / "transport");
    if (folder.filename() == "devices") break;
  }
  return {};
}

/// "none [mq-deadline] kyber"; a stacked device says "none" without brackets.
std::string scheduler_of(const fs::path& device) {
  return chosen_word(text_of(device / "queue/scheduler"));
}

/// What `look` finds for every device if that is the same, else `unknown`.
template <typename Value, typename Devices, typename Look>
Value common(const Devices& devices, Value unknown, Look look) {
  std::optional<Value> found;
  for (const fs::path& device : devices) {
    Value value = look(device);
    if (found && *found != value) return unknown;
    found = std::move(value);
  }
  return found.value_or(unknown);
}

}  // namespace

BlockDevice find_block_device(const FileSystem& file_system, const std::string& root) {
  const fs::path base(root);
  const fs::path folder = device_folder(file_system, base);
  if (folder.empty()) return {};
  const fs::path device = whole_device(folder);
  BlockDevice found;
  found.name = device.filename().string();
  found.is_rotational = number_of(device / "queue/rotational") == 1;
  found.has_polled_queues = number_of(device / "queue/io_poll") == 1;

  std::set<fs::path> seen;
  std::set<fs::path> bottom;
  gather_bottom(device, seen, bottom);
  found.scheduler = scheduler_of(device);
  if (found.scheduler.empty()) found.scheduler = common(bottom, std::string(), scheduler_of);

  std::set<fs::path> plugged;  // As bottom, with controllers instead of heads.
  for (const fs::path& disk : bottom) {
    const auto controllers = controllers_of(disk, base);
    plugged.insert(controllers.begin(), controllers.end());
    if (controllers.empty()) plugged.insert(disk);
  }
  for (const fs::path& disk : plugged) found.disks.push_back(disk.filename().string());
  std::sort(found.disks.begin(), found.disks.end());
  found.numa_node = common(plugged, -1, numa_node_of);
  found.transport = common(plugged, std::string(), transport_of);
  if (found.numa_node >= 0) {
    const std::string node = fmt::format("node{}", found.numa_node);
    found.node_cpus = parse_cpu_list(text_of(base / "sys/devices/system/node" / node / "cpulist"));
  }
  return found;
}

std::vector<std::size_t> parse_cpu_list(std::string_view text) {
  constexpr std::size_t kHighest = 0xffff;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto read_number = [&]() -> std::optional<std::size_t> {
    std::size_t value = 0;
    const auto [stop, error] = std::from_chars(at, end, value);
    if (error != std::errc() || value > kHighest) return std::nullopt;
    at = stop;
    return value;
  };
  std::set<std::size_t> cpus;
  while (at != end) {
    const auto first = read_number();
    if (!first) return {};
    auto last = first;
    if (at != end && *at == '-') {
      ++at;
      last = read_number();
    }
    if (!last || *last < *first) return {};
    for (std::size_t cpu = *first; cpu <= *last; ++cpu) cpus.insert(cpu);
    if (at == end) break;
    if (*at != ',' || at + 1 == end) return {};
    ++at;
  }
  return {cpus.begin(), cpus.end()};
}

}  // namespace feedrace::host
