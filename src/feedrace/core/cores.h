// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace feedrace {

/// Cores that this process may use: the smaller of its affinity mask and its control group's quota
/// rounded up, at least 1. Looks at the file system under `root` (tests), whose default is "/".
std::size_t usable_cores(const std::string& root = "/");

/// The control group's CPU quota in cores, from `cpu.max` (version 2: "max 100000", "150000
/// 100000"); nothing when there is no limit or the text is not such a line.
std::optional<double> parse_cpu_max(const std::string& text);

/// What the kernel thinks can be had without swapping (MemAvailable), or the control group's limit
/// if that is less; nothing where neither can be read.
std::optional<std::size_t> available_memory_bytes(const std::string& root = "/");

/// Anonymous memory of this process that is in RAM (RssAnon); 0 where it can't be read.
std::size_t anonymous_memory_bytes();

}  // namespace feedrace
