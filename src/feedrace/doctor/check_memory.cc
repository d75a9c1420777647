// SPDX-License-Identifier: Apache-2.0
// Memory: what may be locked, huge pages, swap, limits of the control group.

#include <cstdint>
#include <optional>
#include <sstream>
#include <string>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/doctor/checks.h"
#include "feedrace/host/sys_text.h"

namespace feedrace::doctor {
namespace {

/// Read buffers of one reader (64 of 256 KiB) and its ring.
constexpr std::uint64_t kLockedBytes = std::uint64_t{17} << 20;

/// "8388608" or "unlimited" of "Max locked memory   8388608   8388608   bytes".
std::string locked_limit(const std::string& limits) {
  const std::string line = host::line_of(limits, "Max locked memory").value_or("");
  return line.substr(0, line.find(' '));
}

/// CAP_IPC_LOCK among the effective capabilities: no limit counts.
bool may_lock_all(const std::string& status) {
  constexpr unsigned kIpcLock = 14;
  std::istringstream number(host::line_of(status, "CapEff").value_or(""));
  std::uint64_t bits = 0;
  return number >> std::hex >> bits && (bits >> kIpcLock & 1U) != 0;
}

void check_memlock(const Place& place, Findings& findings) {
  Finding one = make_finding("memlock", "", Weight::kSome);
  one.wanted = fmt::format("unlimited, or {} for each reader", human_bytes(kLockedBytes));
  one.why =
      "Buffers that are registered with io_uring, or pinned for a GPU, are locked; above the "
      "limit reads go without registration and cost more CPU time.";
  one.tip = "\"Set memlock to unlimited\" holds; CAP_IPC_LOCK does as well.";
  const std::string limit = locked_limit(host::text_of(place / "proc/self/limits"));
  std::istringstream number(limit);
  std::uint64_t bytes = 0;
  std::string found;
  Grade grade = Grade::kGood;
  if (limit == "unlimited") {
    found = limit;
  } else if (number >> bytes) {
    found = human_bytes(bytes);
    if (may_lock_all(host::text_of(place / "proc/self/status"))) {
      found += ", and CAP_IPC_LOCK lifts it";
    } else if (bytes < kLockedBytes) {
      grade = Grade::kProblem;
    }
  }
  one.fix =
      "printf '* soft memlock unlimited\\n* hard memlock unlimited\\n' > "
      "/etc/security/limits.d/90-memlock.conf  # from the next login on; systemd: "
      "LimitMEMLOCK=infinity; Docker: --ulimit memlock=-1";
  set_found(one, grade, found);
  findings.push_back(std::move(one));
}

void check_huge_pages(const Place& place, Findings& findings) {
  Finding one = make_finding("transparent_huge_pages", "", Weight::kLittle);
  one.wanted = "madvise or always";
  one.why = "Buffers in huge pages are pinned twenty times as fast, as a page is 2 MiB.";
  one.tip = "\"Turn them off\" is outdated: with madvise only who asks gets them.";
  one.fix = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
  const std::string now =
      host::chosen_word(host::text_of(place / "sys/kernel/mm/transparent_hugepage/enabled"));
  set_found(one, now == "never" ? Grade::kAdvice : Grade::kGood, now);
  findings.push_back(std::move(one));
}

/// Bytes, of a line "NAME:   123 kB".
std::optional<std::uint64_t> kilobytes_of(const std::string& text, const std::string& name) {
  std::istringstream rest(host::line_of(text, name).value_or(""));
  std::uint64_t kilobytes = 0;
  if (!(rest >> kilobytes)) return std::nullopt;
  return kilobytes * 1024;
}

void check_swap(const Place& place, Findings& findings) {
  Finding one = make_finding("swap", "", Weight::kSome);
  one.wanted = "none in use";
  one.why =
      "What is swapped out was wanted by somebody: memory is short, and the page cache with "
      "it.";
  one.tip = "\"swappiness=0\" and dropping caches by cron do harm: they take the page cache away.";
  const std::string text = host::text_of(place / "proc/meminfo");
  const auto total = kilobytes_of(text, "SwapTotal");
  const auto free = kilobytes_of(text, "SwapFree");
  std::string found;
  Grade grade = Grade::kGood;
  if (total && free && *free <= *total) {
    const std::uint64_t used = *total - *free;
    found = *total == 0 ? "no swap"
                        : fmt::format("{} of {} in use", human_bytes(used), human_bytes(*total));
    if (used > *total / 100) grade = Grade::kAdvice;
  }
  one.fix = "# make memory free: fewer processes, or a smaller --memory-limit";
  set_found(one, grade, found);
  findings.push_back(std::move(one));
}

void check_available(const Place& place, Findings& findings) {
  Finding one = make_finding("memory", "", Weight::kLarge);
  one.wanted = "as much as the data set has, for a second epoch out of the page cache; else 1 GB";
  one.why =
      "A loader keeps what it read in the page cache where all of it fits into half of the "
      "free memory.";
  const std::string text = host::text_of(place / "proc/meminfo");
  const auto available = kilobytes_of(text, "MemAvailable");
  const auto limited = available_memory_bytes(place.root.string() + "/");
  std::string found;
  Grade grade = Grade::kGood;
  if (limited) {
    found = fmt::format("{} available", human_bytes(*limited));
    if (available && *limited < *available) {
      found = fmt::format("{} by the control group's limit, of {} available", human_bytes(*limited),
                          human_bytes(*available));
      grade = Grade::kAdvice;
    }
    if (*limited < 1'000'000'000) grade = Grade::kProblem;
    if (const auto cached = kilobytes_of(text, "Cached")) {
      found += fmt::format("; {} of page cache", human_bytes(*cached));
    }
  }
  one.fix =
      "# raise the limit of the control group: docker --memory, Kubernetes limits.memory, "
      "systemd MemoryMax";
  set_found(one, grade, found);
  findings.push_back(std::move(one));
}

}  // namespace

void check_memory(const Place& place, Findings& findings) {
  check_memlock(place, findings);
  check_huge_pages(place, findings);
  check_available(place, findings);
  check_swap(place, findings);
}

}  // namespace feedrace::doctor
