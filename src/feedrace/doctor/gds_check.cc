// SPDX-License-Identifier: Apache-2.0
#include "feedrace/doctor/gds_check.h"

#include <sstream>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/doctor/checks.h"

namespace feedrace::doctor {
namespace {

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

/// The first word behind "name:" anywhere in the text, or behind "name   :" at a line's begin.
std::string word_behind(const std::string& text, std::string_view name) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find(name);
    if (at == std::string::npos) continue;
    const std::size_t colon = line.find(':', at + name.size());
    if (colon == std::string::npos) continue;
    const std::string_view between =
        std::string_view(line).substr(at + name.size(), colon - at - name.size());
    // "NVMe" is not "NVMe P2PDMA".
    if (!trimmed(between).empty()) continue;
    std::istringstream rest(line.substr(colon + 1));
    std::string word;
    rest >> word;
    return word;
  }
  return {};
}

}  // namespace

const char* to_string(GdsPath path) noexcept {
  switch (path) {
    case GdsPath::kDirect:
      return "direct";
    case GdsPath::kCompat:
      return "compat";
    case GdsPath::kRefused:
      break;
  }
  return "refused";
}

std::optional<GdsCheck> parse_gds_check(const std::string& text) {
  const std::string forced = word_behind(text, "properties.force_compat_mode");
  const std::string allowed = word_behind(text, "properties.use_compat_mode");
  const std::string module = word_behind(text, "nvidia_fs version");
  if (forced.empty() && allowed.empty() && module.empty()) return std::nullopt;
  GdsCheck found;
  const bool has_digits = module.find_first_of("123456789") != std::string::npos;
  if (has_digits) found.nvidia_fs = module;
  found.has_nvme =
      word_behind(text, "NVMe") == "Supported" || word_behind(text, "NVMe P2PDMA") == "Supported";
  if (forced == "true") {
    found.because = "force_compat_mode";
  } else if (!found.has_nvme) {
    found.because = "NVMe is unsupported";
  }
  if (!found.because.empty()) {
    const bool may_fall_back = forced == "true" || allowed == "true";
    found.path = may_fall_back ? GdsPath::kCompat : GdsPath::kRefused;
  }
  return found;
}

Finding finding_of(const GdsCheck& check) {
  Finding one = make_finding("cufile_path", "", Weight::kSome);
  one.wanted = "direct";
  one.why =
      "In compatibility mode cuFile reads into host memory and copies: every call succeeds, and "
      "none is faster than without it.";
  one.fix = check.because == "force_compat_mode"
                ? "# set properties.force_compat_mode to false in /etc/cufile.json"
                : "# install nvidia-fs (nvidia-gds), or P2PDMA: docs/gpudirect.md";
  const std::string module =
      check.nvidia_fs.empty() ? "no nvidia-fs" : "nvidia-fs " + check.nvidia_fs;
  std::string found = fmt::format("{} ({}, NVMe {}supported", to_string(check.path), module,
                                  check.has_nvme ? "" : "un");
  found += check.because.empty() ? ")" : fmt::format("; because {})", check.because);
  set_found(one, check.path == GdsPath::kDirect ? Grade::kGood : Grade::kProblem, found);
  return one;
}

}  // namespace feedrace::doctor
