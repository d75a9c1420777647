// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace feedrace {

/// Cores that this process may use: the smaller of its affinity mask and its control group's quota
/// rounded up, at least 1. Looks at the file system under `root` (tests), whose default is "/".
std::size_t usable_cores(const std::string& root = "/");

/// The control group's CPU quota in cores, from `cpu.max` (version 2: "max 100000", "150000
/// 100000"); nothing when there is no limit or the text is not such a line.
std::optional<double> parse_cpu_max(const std::string& text);

/// The least CPU quota in cores of this process's control groups, of version 2 or 1; nothing where
/// there is none.
std::optional<double> quota_cores(const std::string& root = "/");

/// Folders of the control group that this process is in and of all above it, innermost first, for
/// a version 1 `controller` or (empty) version 2. Inside a container the group's own path is often
/// not mounted; then only the mount point remains, which is that group.
std::vector<std::string> control_groups(const std::string& root, const std::string& controller);

/// What the kernel thinks can be had without swapping (MemAvailable), or the control group's limit
/// if that is less; nothing where neither can be read.
std::optional<std::size_t> available_memory_bytes(const std::string& root = "/");

/// Anonymous memory of this process that is in RAM (RssAnon); 0 where it can't be read.
std::size_t anonymous_memory_bytes();

}  // namespace feedrace
