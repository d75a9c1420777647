// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "feedrace/doctor/finding.h"

namespace feedrace::doctor {

struct DoctorOptions {
  /// Data sets, or other files and folders, whose storage is looked at.
  std::vector<std::string> paths;
  /// Where proc, sys, boot and dev are looked for. With another one than "/" nothing is tried on
  /// this machine: what only a system call tells is unknown.
  std::string root = "/";
  /// What `gdscheck -p` of cuFile printed.
  std::optional<std::string> gds_check = std::nullopt;
};

/// Looks at the machine and changes nothing. What can't be seen is a finding of `kUnknown`, never
/// an error. Throws Error kNotFound for a path that is not there (only with root "/"),
/// kInvalidArgument for another text than that of gdscheck.
Findings examine(const DoctorOptions& options);

/// A shell script of the fixes of all that is not good, each with what was found and why; what has
/// no fix stands there as a comment.
std::string fix_script(const Findings& findings);

}  // namespace feedrace::doctor
