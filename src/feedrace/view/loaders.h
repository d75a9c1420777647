// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "feedrace/error.h"
#include "feedrace/view/page_cache.h"

namespace feedrace::view {

/// What a running loader told of itself: `watch::to_json` of its snapshot.
struct LoaderLook {
  std::string socket;
  nlohmann::json told;
  std::optional<std::uint64_t> device_bytes;  ///< See `device_bytes_of`.
  /// Of its data set, by samples that it names; why it is not known.
  Result<CachedShare> cached = Failure{ErrorCode::kUnsupported, "the loader names no samples"};

  std::uint64_t pid() const;
};

struct LoaderLooks {
  std::vector<LoaderLook> loaders;
  /// A sentence for each that has a socket and did not answer.
  std::vector<std::string> silent;
};

/// Asks all loaders that have a socket in one of `folders`, each for at most a second.
LoaderLooks look_at_loaders(const std::vector<std::string>& folders, const std::string& root = "/");

/// Between two looks at one loader, as JSON: rates, shares of stages, queues, the verdict. What was
/// not told is null or absent.
nlohmann::ordered_json loader_between(const LoaderLook& before, const LoaderLook& after);

}  // namespace feedrace::view
