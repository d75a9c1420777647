// SPDX-License-Identifier: Apache-2.0
// The kernel: whether io_uring may be used, and what its version and build give.

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/doctor/checks.h"
#include "feedrace/host/sys_text.h"
#include "feedrace/storage/uring_ring.h"

namespace feedrace::doctor {
namespace {

struct Version {
  unsigned major = 0;
  unsigned minor = 0;

  bool operator==(const Version&) const = default;
  auto operator<=>(const Version&) const = default;
};

/// Of "6.1.0-28-amd64".
std::optional<Version> version_of(const std::string& release) {
  Version version;
  const char* const end = release.data() + release.size();
  const auto [dot, major_error] = std::from_chars(release.data(), end, version.major);
  if (major_error != std::errc() || dot == end || *dot != '.') return std::nullopt;
  const auto [stop, minor_error] = std::from_chars(dot + 1, end, version.minor);
  return minor_error == std::errc() ? std::optional(version) : std::nullopt;
}

void check_uring(const Place& place, Findings& findings) {
  Finding one = make_finding("io_uring", "", Weight::kLarge);
  one.wanted = "allowed";
  one.why =
      "One thread keeps tens of reads in flight; without it threads wait in read calls, and "
      "small files cost several times the CPU time.";
  one.tip = "SQPOLL (\"turn it on\") costs a core: of use only where more than eight are spare.";
  const auto disabled = host::number_of(place / "proc/sys/kernel/io_uring_disabled");
  one.fix = "sysctl -w kernel.io_uring_disabled=0";
  if (place.is_live) {
    const Result<void> probed = storage::probe_uring();
    // In a container it is most often a seccomp filter, which no command in here lifts.
    if (!probed && disabled.value_or(0) == 0) {
      one.fix =
          "# let the container's seccomp profile allow io_uring_setup, io_uring_enter and "
          "io_uring_register";
    }
    set_found(one, probed ? Grade::kGood : Grade::kProblem,
              probed ? "allowed" : probed.error().message);
  } else if (disabled) {
    set_found(one, *disabled == 0 ? Grade::kGood : Grade::kProblem,
              *disabled == 0 ? "kernel.io_uring_disabled is 0"
                             : fmt::format("kernel.io_uring_disabled is {}", *disabled));
  } else {
    set_found(one, Grade::kUnknown, "");
  }
  findings.push_back(std::move(one));
}

void check_features(const std::optional<Version>& version, const std::string& release,
                    Findings& findings) {
  struct Feature {
    Version since;
    const char* text;
  };
  static constexpr std::array<Feature, 3> kFeatures = {{
      {{6, 1}, "completions without interrupts (DEFER_TASKRUN, 6.1)"},
      {{6, 5}, "what of a file is cached (cachestat, 6.5)"},
      {{6, 14}, "reads that leave no pages behind (RWF_DONTCACHE, 6.14)"},
  }};
  Finding one = make_finding("kernel", "", Weight::kSome);
  one.wanted = "6.14 or later";
  one.why = "Each has something that a loader uses where it is there.";
  std::string missing;
  for (const Feature& feature : kFeatures) {
    if (version && *version < feature.since) {
      missing += (missing.empty() ? ", without " : ", ") + std::string(feature.text);
    }
  }
  one.fix = "# a newer kernel, such as the distribution's backport";
  set_found(one, missing.empty() ? Grade::kGood : Grade::kAdvice,
            version ? release + missing : std::string());
  findings.push_back(std::move(one));
}

/// Of /boot/config-RELEASE, since version numbers say nothing: "y", or "n" where it is not set.
std::string config_value(const Place& place, const std::string& release, std::string_view name) {
  const std::string text = host::text_of(place.root / "boot" / ("config-" + release));
  if (text.empty()) return {};
  const std::string key = std::string(name) + "=";
  const std::size_t at = text.find(key);
  if (at == std::string::npos || (at != 0 && text[at - 1] != '\n')) return "n";
  return text.substr(at + key.size(), 1);
}

void check_p2pdma(const Place& place, const std::optional<Version>& version,
                  const std::string& release, Findings& findings) {
  Finding one = make_finding("kernel_p2pdma", "", Weight::kLittle);
  one.wanted = "6.2 or later with CONFIG_PCI_P2PDMA=y";
  one.why = "Only with it cuFile reads from NVMe into a GPU without the module nvidia-fs.";
  one.tip = "The version alone says nothing: Debian 12's kernels leave it out.";
  one.fix = "# a kernel that was built with CONFIG_PCI_P2PDMA=y, or the module nvidia-fs";
  const std::string value = config_value(place, release, "CONFIG_PCI_P2PDMA");
  const bool is_there = value == "y" && version && *version >= Version{6, 2};
  set_found(one, is_there ? Grade::kGood : Grade::kAdvice,
            value.empty() ? "" : fmt::format("CONFIG_PCI_P2PDMA={}", value),
            "the kernel's configuration (/boot/config-*) can't be read");
  findings.push_back(std::move(one));
}

}  // namespace

void check_kernel(const Place& place, Findings& findings) {
  const std::string release = host::word_of(place / "proc/sys/kernel/osrelease");
  const auto version = version_of(release);
  check_uring(place, findings);
  check_features(version, release, findings);
  check_p2pdma(place, version, release, findings);
}

}  // namespace feedrace::doctor
