// SPDX-License-Identifier: Apache-2.0
// Cores: how many may be used, how fast they clock, who takes them away.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/doctor/checks.h"
#include "feedrace/host/sys_text.h"

namespace feedrace::doctor {
namespace {

namespace fs = std::filesystem;

std::optional<std::size_t> online_cores(const Place& place) {
  const auto cpus = host::parse_cpu_list(host::text_of(place / "sys/devices/system/cpu/online"));
  return cpus.empty() ? std::nullopt : std::optional(cpus.size());
}

/// Cores of the affinity mask, as proc has it.
std::optional<std::size_t> allowed_cores(const Place& place) {
  const auto list = host::line_of(host::text_of(place / "proc/self/status"), "Cpus_allowed_list");
  if (!list) return std::nullopt;
  const auto cpus = host::parse_cpu_list(*list);
  return cpus.empty() ? std::nullopt : std::optional(cpus.size());
}

void check_usable(const Place& place, Findings& findings) {
  Finding one = make_finding("cores", "", Weight::kLarge);
  one.wanted = "as many cores as the machine has, without a quota below them";
  one.why =
      "Decode threads are as many as cores may be used; above a quota they are stopped for "
      "parts of each 100 ms.";
  one.tip = "More decode threads than cores never help.";
  const auto online = online_cores(place);
  const auto allowed = allowed_cores(place);
  const auto quota = quota_cores(place.root.string() + "/");
  if (!online && !allowed) {
    set_found(one, Grade::kUnknown, "");
    findings.push_back(std::move(one));
    return;
  }
  const std::size_t cores = std::min(online.value_or(*allowed), allowed.value_or(*online));
  std::string found = fmt::format("{} of {} cores", cores, online.value_or(cores));
  Grade grade = cores < online.value_or(cores) ? Grade::kAdvice : Grade::kGood;
  if (grade == Grade::kAdvice) one.fix = "# widen the affinity: taskset, cpuset, --cpu-bind";
  if (quota && *quota < static_cast<double>(cores)) {
    found += fmt::format(", limited to {:.4g} by the control group", *quota);
    grade = Grade::kProblem;
    one.fix =
        "# raise the limit of the control group: docker --cpus, Kubernetes limits.cpu, "
        "systemd CPUQuota";
  }
  set_found(one, grade, found);
  findings.push_back(std::move(one));
}

/// Names of cpufreq's policies.
std::vector<fs::path> policies(const Place& place) {
  std::vector<fs::path> found;
  std::error_code ended;
  for (fs::directory_iterator entry(place / "sys/devices/system/cpu/cpufreq", ended), end;
       !ended && entry != end; entry.increment(ended)) {
    if (entry->path().filename().string().starts_with("policy")) found.push_back(entry->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::string join(const std::set<std::string>& words) {
  return fmt::format("{}", fmt::join(words, ", "));
}

void check_governor(const Place& place, Findings& findings) {
  Finding one = make_finding("cpu_governor", "", Weight::kSome);
  one.wanted = "performance, or with a pstate driver the preference performance";
  one.why =
      "Decoding comes in bursts, and a core that has to clock up first decodes the first "
      "pictures of each slowly.";
  one.tip = "Holds on bare metal only: in a virtual machine the host decides.";
  std::set<std::string> governors;
  std::set<std::string> preferences;
  bool is_pstate = true;
  for (const fs::path& policy : policies(place)) {
    const std::string governor = host::word_of(policy / "scaling_governor");
    if (!governor.empty()) governors.insert(governor);
    const std::string preference = host::word_of(policy / "energy_performance_preference");
    if (!preference.empty()) preferences.insert(preference);
    const std::string driver = host::word_of(policy / "scaling_driver");
    is_pstate = is_pstate && (driver == "intel_pstate" || driver.starts_with("amd-pstate"));
  }
  if (governors.empty()) {
    const bool is_known = online_cores(place).has_value();
    set_found(one, Grade::kGood, is_known ? "managed by the host" : "");
    findings.push_back(std::move(one));
    return;
  }
  std::string found = join(governors);
  if (!preferences.empty()) found += fmt::format(" (preference {})", join(preferences));
  const bool is_fast = governors == std::set<std::string>{"performance"} ||
                       (is_pstate && preferences == std::set<std::string>{"performance"});
  // Balanced preferences of pstate drivers and schedutil clock up within a millisecond.
  const bool is_slow = governors.contains("powersave") && !is_pstate;
  one.fix =
      "for governor in /sys/devices/system/cpu/cpufreq/policy*/scaling_governor; do\n"
      "  echo performance > \"$governor\"\ndone";
  set_found(one, is_fast ? Grade::kGood : (is_slow ? Grade::kProblem : Grade::kAdvice), found);
  findings.push_back(std::move(one));
}

/// Since the machine was started.
void check_steal(const Place& place, Findings& findings) {
  Finding one = make_finding("cpu_steal", "", Weight::kSome);
  one.wanted = "below 2 %";
  one.why =
      "Time in which the hypervisor gave this machine's cores to others: a neighbour slows "
      "decoding, and no setting in here helps.";
  std::istringstream text(host::line_of(host::text_of(place / "proc/stat"), "cpu").value_or(""));
  double sum = 0;
  double steal = 0;
  double value = 0;
  constexpr int kSteal = 7;       // user, nice, system, idle, iowait, irq, softirq, steal;
  constexpr int kGuestBegin = 8;  // guest times are in the first two again.
  int count = 0;
  for (; count < kGuestBegin && text >> value; ++count) {
    sum += value;
    if (count == kSteal) steal = value;
  }
  const bool is_known = count == kGuestBegin && sum > 0;
  const double percent = is_known ? 100 * steal / sum : 0;
  one.fix = "# another host, or a machine with cores of its own";
  set_found(one, percent < 2 ? Grade::kGood : (percent < 10 ? Grade::kAdvice : Grade::kProblem),
            is_known ? fmt::format("{:.1f} % since the start", percent) : "");
  findings.push_back(std::move(one));
}

/// "some avg10=1.23 avg60=...".
std::optional<double> average_of(const std::string& text) {
  const auto some = host::line_of(text, "some");
  if (!some || !some->starts_with("avg10=")) return std::nullopt;
  std::istringstream number(some->substr(6));
  double value = 0;
  if (!(number >> value)) return std::nullopt;
  return value;
}

void check_pressure(const Place& place, Findings& findings) {
  struct Kind {
    const char* file;
    const char* what;
    double high;
  };
  for (const Kind& kind : {Kind{"cpu", "Tasks waited for a core: others compute here too.", 20},
                           Kind{"io", "Tasks waited for storage.", 10},
                           Kind{"memory", "Tasks waited for memory to be freed.", 5}}) {
    Finding one = make_finding("pressure", kind.file, Weight::kSome);
    one.wanted =
        fmt::format("below {:.0f} % of the last 10 s while nothing of yours runs", kind.high);
    one.why = kind.what;
    one.fix = "# see who: top, iotop, systemd-cgtop";
    const auto percent = average_of(host::text_of(place.root / "proc/pressure" / kind.file));
    set_found(one, percent.value_or(0) < kind.high ? Grade::kGood : Grade::kAdvice,
              percent ? fmt::format("{:.1f} %", *percent) : "",
              "can't be read (a kernel without PSI, or psi=0)");
    findings.push_back(std::move(one));
  }
}

}  // namespace

void check_cores(const Place& place, Findings& findings) {
  check_usable(place, findings);
  check_governor(place, findings);
  check_steal(place, findings);
  check_pressure(place, findings);
}

}  // namespace feedrace::doctor
