// SPDX-License-Identifier: Apache-2.0
#include "feedrace/doctor/doctor.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/doctor/checks.h"
#include "feedrace/doctor/gds_check.h"
#include "feedrace/error.h"
#include "feedrace/host/file_system.h"
#include "feedrace/host/mounts.h"
#include "feedrace/host/sys_text.h"

namespace feedrace::doctor {
namespace {

namespace fs = std::filesystem;

/// Absolute and without links; as given where it is not there.
std::string real_path(const std::string& path, const Place& place) {
  std::error_code error;
  if (!place.is_live) return fs::path(path).lexically_normal().string();
  const fs::path found = fs::canonical(path, error);
  if (error) {
    throw Error(ErrorCode::kNotFound, fmt::format("{}: {}; name a file or folder that is there",
                                                  printable(path), error.message()));
  }
  return found.string();
}

Storage look_at(const std::string& path, const std::vector<host::Mount>& mounts,
                const Place& place) {
  Storage storage;
  storage.path = path;
  const std::string real = real_path(path, place);
  if (const auto mount = host::mount_of(mounts, real)) storage.mount = *mount;
  host::FileSystem file_system;
  file_system.mount_source = storage.mount.source;
  struct stat status{};
  if (place.is_live && stat(real.c_str(), &status) == 0) file_system.device = status.st_dev;
  storage.device = host::find_block_device(file_system, place.root.string());
  return storage;
}

/// A comment may take several lines.
void put_comment(std::string& script, const std::string& text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) script += "# " + printable(line) + "\n";
}

}  // namespace

const char* to_string(Grade grade) noexcept {
  switch (grade) {
    case Grade::kGood:
      return "good";
    case Grade::kAdvice:
      return "advice";
    case Grade::kProblem:
      return "problem";
    case Grade::kUnknown:
      break;
  }
  return "unknown";
}

const char* to_string(Weight weight) noexcept {
  switch (weight) {
    case Weight::kLarge:
      return "large";
    case Weight::kSome:
      return "some";
    case Weight::kLittle:
      break;
  }
  return "little";
}

Findings examine(const DoctorOptions& options) {
  const Place place{options.root, options.root == "/"};
  const auto mounts = host::parse_mounts(host::text_of(place / "proc/self/mountinfo"));
  std::vector<Storage> storages;
  storages.reserve(options.paths.size());
  for (const std::string& path : options.paths) storages.push_back(look_at(path, mounts, place));
  Findings findings;
  check_storage(place, storages, findings);
  check_cores(place, findings);
  check_memory(place, findings);
  check_kernel(place, findings);
  check_gpu(place, storages, findings);
  if (options.gds_check) {
    const auto check = parse_gds_check(*options.gds_check);
    if (!check) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "gdscheck: the text names no nvidia_fs version or compat mode; give what gdscheck "
          "-p printed");
    }
    findings.push_back(finding_of(*check));
  }
  return findings;
}

std::string fix_script(const Findings& findings) {
  std::string script =
      "#!/bin/sh\n"
      "# What feedrace doctor would change on this machine. Read it, then run it as root.\n"
      "set -eu\n";
  std::size_t count = 0;
  for (const Finding& one : findings) {
    if (one.grade != Grade::kAdvice && one.grade != Grade::kProblem) continue;
    ++count;
    script += fmt::format("\n# {}{}: {} ({} weight)\n", one.item,
                          one.subject.empty() ? "" : " of " + printable(one.subject),
                          to_string(one.grade), to_string(one.weight));
    put_comment(script, "found: " + one.found);
    put_comment(script, "wanted: " + one.wanted);
    put_comment(script, one.why);
    if (!one.tip.empty()) put_comment(script, "often advised: " + one.tip);
    script += one.fix + "\n";
  }
  if (count == 0) script += "\n# Nothing to change.\n";
  return script;
}

}  // namespace feedrace::doctor
