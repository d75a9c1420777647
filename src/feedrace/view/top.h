// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "feedrace/view/host_use.h"
#include "feedrace/view/loaders.h"

namespace feedrace::view {

struct TopOptions {
  std::vector<std::string> folders;  ///< Of the loaders' sockets.
  std::string root = "/";            ///< Where proc and sys are read.
  /// What GPUs do, as JSON of the CUDA plug-in's `use`, or why that can't be seen as {"missing"};
  /// empty: nobody asks.
  std::function<std::string()> ask_gpus;
  /// What reads of block devices took since it was asked last, as `BlockTrace::take` tells it, or
  /// {"missing"}; empty: nobody asks.
  std::function<nlohmann::ordered_json()> take_block_latency;
};

/// What loaders and machine do at a moment.
struct TopLook {
  std::chrono::steady_clock::time_point when;
  HostUse host;
  LoaderLooks loaders;
  nlohmann::json gpus;
  nlohmann::ordered_json block_latency;
};

TopLook take_look(const TopOptions& options);

/// What happened between two looks: "seconds", "cpu", "pressure", "devices", "block_latency",
/// "gpus", "loaders", "silent".
nlohmann::ordered_json top_between(const TopLook& before, const TopLook& after);

/// It, for a terminal: lines of at most `width` cells, `height` of them at most.
std::string draw_top(const nlohmann::ordered_json& top, std::size_t width, std::size_t height);

}  // namespace feedrace::view
