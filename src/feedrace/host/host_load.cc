// SPDX-License-Identifier: Apache-2.0
#include "feedrace/host/host_load.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <sstream>

#include "feedrace/core/cores.h"
#include "feedrace/host/sys_text.h"

namespace feedrace::host {
namespace {

// /proc/stat counts in these whatever the kernel's own tick is (USER_HZ).
constexpr double kTicksASecond = 100;
constexpr std::uint64_t kSectorBytes = 512;

template <typename Number>
std::optional<Number> number_in(std::string_view word) {
  Number value{};
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (error != std::errc() || stop != word.data() + word.size()) return std::nullopt;
  return value;
}

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

std::optional<std::uint64_t> value_of(const std::string& text, const std::string& name) {
  const auto line = line_of(text, name);
  if (!line) return std::nullopt;
  const auto words = words_of(*line);
  return words.empty() ? std::nullopt : number_in<std::uint64_t>(words.front());
}

/// CPUs of the affinity mask; empty: unknown.
std::vector<std::size_t> allowed_cpus() {
  cpu_set_t set;
  std::vector<std::size_t> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

std::optional<double> pressure(const std::string& root, const char* what) {
  // Version 2 tells it for the own group; where there is none, the machine's.
  for (const std::string& folder : control_groups(root, "")) {
    if (auto own = parse_pressure_seconds(text_of(folder + "/" + what + ".pressure"))) return own;
  }
  return parse_pressure_seconds(text_of(root + "proc/pressure/" + what));
}

std::optional<Throttling> throttling(const std::string& root) {
  std::optional<Throttling> most;
  for (const char* controller : {"", "cpu"}) {
    for (const std::string& folder : control_groups(root, controller)) {
      const auto one = parse_throttling(text_of(folder + "/cpu.stat"));
      if (one && (!most || one->throttled_periods > most->throttled_periods)) most = one;
    }
  }
  return most;
}

double own_cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

/// Counters may be reset, or be another device's of the same name.
template <typename Number>
double risen(Number before, Number after) {
  return after > before ? static_cast<double>(after - before) : 0;
}

std::optional<double> share_of(const std::optional<double>& before,
                               const std::optional<double>& after, double seconds) {
  if (!before || !after || seconds <= 0) return std::nullopt;
  return std::min(1.0, risen(*before, *after) / seconds);
}

std::optional<double> difference(const std::optional<std::uint64_t>& before,
                                 const std::optional<std::uint64_t>& after) {
  if (!before || !after) return std::nullopt;
  return risen(*before, *after);
}

std::optional<HostRates::Disk> disk_rates(const std::vector<DiskCounters>& before,
                                          const std::vector<DiskCounters>& after, double seconds) {
  HostRates::Disk all;
  double reads = 0;
  double bytes = 0;
  double read_seconds = 0;
  for (const DiskCounters& then : before) {
    const auto now = std::find_if(after.begin(), after.end(),
                                  [&](const auto& one) { return one.name == then.name; });
    if (now == after.end()) continue;  // It was pulled out.
    all.name += (all.name.empty() ? "" : "+") + then.name;
    reads += risen(then.reads, now->reads);
    bytes += risen(then.read_bytes, now->read_bytes);
    read_seconds += risen(then.read_seconds, now->read_seconds);
    all.queue_mean += risen(then.weighted_seconds, now->weighted_seconds) / seconds;
    all.busy_share = std::max(all.busy_share,
                              std::min(1.0, risen(then.busy_seconds, now->busy_seconds) / seconds));
  }
  if (all.name.empty()) return std::nullopt;
  all.reads_a_second = reads / seconds;
  all.bytes_a_second = bytes / seconds;
  if (reads > 0) {
    all.mean_read_bytes = bytes / reads;
    all.read_ms = 1e3 * read_seconds / reads;
  }
  return all;
}

void fill_cpu(const HostCounters& before, const HostCounters& after, HostRates& rates) {
  if (!before.cpu || !after.cpu) return;
  const double busy = risen(before.cpu->busy, after.cpu->busy);
  const double steal = risen(before.cpu->steal, after.cpu->steal);
  const double all = busy + steal + risen(before.cpu->idle, after.cpu->idle);
  if (all <= 0) return;  // Sooner than the kernel counts.
  rates.cpu_count = after.cpu->cpu_count;
  rates.cpu_busy_share = busy / all;
  rates.steal_share = steal / all;
  const double cores = busy / all * static_cast<double>(after.cpu->cpu_count);
  rates.other_cpu_cores = std::max(0.0, cores - rates.own_cpu_cores);
}

}  // namespace

std::optional<CpuSeconds> parse_cpu_seconds(std::string_view stat,
                                            const std::vector<std::size_t>& cpus) {
  CpuSeconds sum;
  std::istringstream lines{std::string(stat)};
  for (std::string line; std::getline(lines, line);) {
    const auto words = words_of(line);
    if (words.size() < 5 || !words[0].starts_with("cpu")) continue;
    const auto number = number_in<std::size_t>(std::string_view(words[0]).substr(3));
    if (!number) continue;  // The sum of all.
    if (!cpus.empty() && std::find(cpus.begin(), cpus.end(), *number) == cpus.end()) continue;
    // user nice system idle iowait irq softirq steal; guest time is in user's already.
    for (std::size_t i = 1; i < std::min<std::size_t>(words.size(), 9); ++i) {
      const double seconds = number_in<double>(words[i]).value_or(0) / kTicksASecond;
      const bool is_idle = i == 4 || i == 5;
      if (i == 8) {
        sum.steal += seconds;
      } else {
        (is_idle ? sum.idle : sum.busy) += seconds;
      }
    }
    ++sum.cpu_count;
  }
  if (sum.cpu_count == 0) return std::nullopt;
  return sum;
}

std::optional<double> parse_pressure_seconds(std::string_view text) {
  const auto line = line_of(std::string(text), "some");
  if (!line) return std::nullopt;
  constexpr std::string_view kTotal = "total=";
  for (const std::string& word : words_of(*line)) {
    if (!word.starts_with(kTotal)) continue;
    const auto us = number_in<std::uint64_t>(std::string_view(word).substr(kTotal.size()));
    if (us) return static_cast<double>(*us) * 1e-6;
  }
  return std::nullopt;
}

std::optional<Throttling> parse_throttling(std::string_view cpu_stat) {
  const std::string text(cpu_stat);
  const auto periods = value_of(text, "nr_periods");
  const auto throttled = value_of(text, "nr_throttled");
  if (!periods || !throttled) return std::nullopt;
  Throttling one{*periods, *throttled, 0};
  if (const auto us = value_of(text, "throttled_usec")) {
    one.throttled_seconds = static_cast<double>(*us) * 1e-6;
  } else if (const auto ns = value_of(text, "throttled_time")) {
    one.throttled_seconds = static_cast<double>(*ns) * 1e-9;
  }
  return one;
}

std::optional<DiskCounters> parse_disk(std::string_view diskstats, std::string_view name) {
  std::istringstream lines{std::string(diskstats)};
  for (std::string line; std::getline(lines, line);) {
    const auto words = words_of(line);
    if (words.size() < 14 || words[2] != name) continue;
    const auto at = [&](std::size_t i) {
      return number_in<std::uint64_t>(words[3 + i]).value_or(0);
    };
    const auto ms = [&](std::size_t i) { return static_cast<double>(at(i)) * 1e-3; };
    return DiskCounters{std::string(name), at(0), at(2) * kSectorBytes, ms(3), ms(9), ms(10)};
  }
  return std::nullopt;
}

std::optional<MemoryFigures> parse_memory(std::string_view meminfo) {
  const std::string text(meminfo);
  const auto cached = value_of(text, "Cached");
  const auto available = value_of(text, "MemAvailable");
  if (!cached || !available) return std::nullopt;
  return MemoryFigures{(*cached + value_of(text, "Buffers").value_or(0)) * 1024, *available * 1024};
}

HostCounters read_host_counters(const std::vector<std::string>& disks, const std::string& root) {
  HostCounters now;
  now.at_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  now.own_cpu_seconds = own_cpu_seconds();
  now.cpu = parse_cpu_seconds(text_of(root + "proc/stat"), allowed_cpus());
  now.cpu_pressure = pressure(root, "cpu");
  now.io_pressure = pressure(root, "io");
  now.memory_pressure = pressure(root, "memory");
  now.throttling = throttling(root);
  now.swapped_in = value_of(text_of(root + "proc/vmstat"), "pswpin");
  now.own_read_bytes = value_of(text_of(root + "proc/self/io"), "read_bytes");
  if (disks.empty()) return now;
  const std::string diskstats = text_of(root + "proc/diskstats");
  for (const std::string& name : disks) {
    if (auto disk = parse_disk(diskstats, name)) now.disks.push_back(*std::move(disk));
  }
  return now;
}

HostRates rates_between(const HostCounters& before, const HostCounters& after) {
  HostRates rates;
  rates.seconds = after.at_seconds - before.at_seconds;
  if (rates.seconds <= 0) return rates;
  rates.own_cpu_cores = risen(before.own_cpu_seconds, after.own_cpu_seconds) / rates.seconds;
  fill_cpu(before, after, rates);
  rates.cpu_pressure = share_of(before.cpu_pressure, after.cpu_pressure, rates.seconds);
  rates.io_pressure = share_of(before.io_pressure, after.io_pressure, rates.seconds);
  rates.memory_pressure = share_of(before.memory_pressure, after.memory_pressure, rates.seconds);
  if (before.throttling && after.throttling) {
    const double periods = risen(before.throttling->periods, after.throttling->periods);
    if (periods > 0) {
      rates.throttled_period_share = std::min(
          1.0, risen(before.throttling->throttled_periods, after.throttling->throttled_periods) /
                   periods);
    }
  }
  if (const auto pages = difference(before.swapped_in, after.swapped_in)) {
    rates.swapped_in_a_second = *pages / rates.seconds;
  }
  rates.own_read_bytes = difference(before.own_read_bytes, after.own_read_bytes);
  rates.disk = disk_rates(before.disks, after.disks, rates.seconds);
  return rates;
}

}  // namespace feedrace::host
