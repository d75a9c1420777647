// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace feedrace {

/// The content of a file of /proc or /sys, or of a copy of one; empty where it can't be opened or
/// read, as with pressure files of a kernel that counts none: they open, and reading fails. Waits
/// for nobody, and takes no more than 16 MiB. Any thread.
std::string kernel_file(const std::string& path);

}  // namespace feedrace
