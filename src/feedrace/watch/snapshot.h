// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "feedrace/stats.h"

namespace feedrace::watch {

/// What a loader shows of itself at a moment.
struct Snapshot {
  Stats stats;
  /// How full the queues are; empty while no thread runs.
  std::vector<std::pair<const char*, std::uint64_t>> levels;
  std::string verdict;  ///< What limits, in one sentence.
  /// What does not change while it lives: "data", "device".
  std::vector<std::pair<const char*, std::string>> facts;
};

/// Where the bytes of a sample lie.
struct SamplePlace {
  std::string path;
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = 0;  ///< 0: to the end of the file.
};

}  // namespace feedrace::watch
