// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/host_use.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "feedrace/core/text.h"
#include "feedrace/host/sys_text.h"

namespace feedrace::view {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kSectorBytes = 512;

/// Later minus earlier; a device that went and came back counts from 0.
std::uint64_t grown(std::uint64_t before, std::uint64_t after) {
  return after >= before ? after - before : after;
}

double share(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Null where nothing came.
Json mean(std::uint64_t sum, std::uint64_t count) {
  return count == 0 ? Json(nullptr) : Json(share(sum, count));
}

std::map<std::string, DiskCounters> read_disks(const std::string& root) {
  std::map<std::string, DiskCounters> disks;
  const std::filesystem::path devices = root + "/sys/block";
  std::istringstream lines(host::text_of(root + "/proc/diskstats"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string major;
    std::string minor;
    std::string name;
    std::array<std::uint64_t, 11> numbers{};
    words >> major >> minor >> name;
    for (std::uint64_t& number : numbers) words >> number;
    if (words.fail()) continue;  // Half of a line, or a kernel that counts less.
    std::error_code ignored;
    if (!std::filesystem::exists(devices / name, ignored)) continue;
    disks[name] = {numbers[0], numbers[1], numbers[2] * kSectorBytes,
                   numbers[3], numbers[4], numbers[6] * kSectorBytes,
                   numbers[7], numbers[9], numbers[10]};
  }
  return disks;
}

std::optional<CpuCounters> read_cpu(const std::string& root) {
  const auto line = host::line_of(host::text_of(root + "/proc/stat"), "cpu");
  if (!line) return std::nullopt;
  std::istringstream words(*line);
  std::array<std::uint64_t, 8> ticks{};  // user nice system idle iowait irq softirq steal
  for (std::uint64_t& each : ticks) words >> each;
  if (words.fail()) return std::nullopt;
  CpuCounters cpu;
  cpu.busy = ticks[0] + ticks[1] + ticks[2] + ticks[5] + ticks[6];
  cpu.waiting = ticks[4];
  cpu.stolen = ticks[7];
  cpu.all = cpu.busy + cpu.waiting + cpu.stolen + ticks[3];
  return cpu;
}

/// "some avg10=1.23 ...".
std::optional<double> read_pressure(const std::string& root, const std::string& what) {
  const auto line = host::line_of(host::text_of(root + "/proc/pressure/" + what), "some");
  constexpr std::string_view kKey = "avg10=";
  const std::size_t at = line ? line->find(kKey) : std::string::npos;
  if (at == std::string::npos) return std::nullopt;
  double value = 0;
  const char* const begin = line->data() + at + kKey.size();
  const auto [stop, error] = std::from_chars(begin, line->data() + line->size(), value);
  return error == std::errc() ? std::optional(value) : std::nullopt;
}

Json disk_json(const std::string& name, const DiskCounters& before, const DiskCounters& after,
               double seconds) {
  const std::uint64_t reads = grown(before.reads, after.reads);
  const std::uint64_t writes = grown(before.writes, after.writes);
  const auto rate = [seconds](std::uint64_t count) { return static_cast<double>(count) / seconds; };
  Json one;
  one["name"] = printable(name);
  // Time with any request: of a device that serves many at once no measure of how full it is.
  one["busy_share"] = std::min(1.0, rate(grown(before.busy_ms, after.busy_ms)) * 1e-3);
  one["queue"] = rate(grown(before.queued_ms, after.queued_ms)) * 1e-3;
  const std::uint64_t read_bytes = grown(before.read_bytes, after.read_bytes);
  one["reads_per_second"] = rate(reads);
  one["merged_reads_per_second"] = rate(grown(before.merged_reads, after.merged_reads));
  one["read_bytes_per_second"] = rate(read_bytes);
  one["read_latency_ms"] = mean(grown(before.read_ms, after.read_ms), reads);
  one["read_size_bytes"] = mean(read_bytes, reads);
  const std::uint64_t written_bytes = grown(before.written_bytes, after.written_bytes);
  one["writes_per_second"] = rate(writes);
  one["written_bytes_per_second"] = rate(written_bytes);
  one["write_latency_ms"] = mean(grown(before.write_ms, after.write_ms), writes);
  one["write_size_bytes"] = mean(written_bytes, writes);
  return one;
}

}  // namespace

HostUse read_host_use(const std::string& root) {
  HostUse use;
  use.disks = read_disks(root);
  use.cpu = read_cpu(root);
  for (const char* what : {"cpu", "io", "memory"}) {
    if (const auto value = read_pressure(root, what)) use.pressure[what] = *value;
  }
  return use;
}

std::optional<std::uint64_t> device_bytes_of(std::uint64_t pid, const std::string& root) {
  const std::string text = host::text_of(root + "/proc/" + std::to_string(pid) + "/io");
  const auto line = host::line_of(text, "read_bytes");
  if (!line) return std::nullopt;
  std::uint64_t bytes = 0;
  const auto [stop, error] = std::from_chars(line->data(), line->data() + line->size(), bytes);
  return error == std::errc() ? std::optional(bytes) : std::nullopt;
}

Json use_between(const HostUse& before, const HostUse& after, double seconds) {
  Json use;
  use["cpu"] = nullptr;
  if (before.cpu && after.cpu) {
    const std::uint64_t all = grown(before.cpu->all, after.cpu->all);
    use["cpu"] = {{"busy_share", share(grown(before.cpu->busy, after.cpu->busy), all)},
                  {"io_wait_share", share(grown(before.cpu->waiting, after.cpu->waiting), all)},
                  {"stolen_share", share(grown(before.cpu->stolen, after.cpu->stolen), all)}};
  }
  use["pressure"] = Json::object();
  for (const auto& [what, value] : after.pressure) use["pressure"][what] = value;
  std::vector<Json> devices;
  for (const auto& [name, counters] : after.disks) {
    const auto known = before.disks.find(name);
    if (known == before.disks.end()) continue;  // Came just now: shown next time.
    devices.push_back(disk_json(name, known->second, counters, seconds));
  }
  std::stable_sort(devices.begin(), devices.end(), [](const Json& a, const Json& b) {
    const auto bytes = [](const Json& one) {
      return std::pair(one["read_bytes_per_second"].get<double>(),
                       one["written_bytes_per_second"].get<double>());
    };
    return bytes(a) > bytes(b);
  });
  use["devices"] = devices;
  return use;
}

}  // namespace feedrace::view
