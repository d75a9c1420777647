// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include "feedrace/error.h"
#include "feedrace/watch/snapshot.h"

namespace feedrace::view {

/// How much of some samples the page cache holds.
struct CachedShare {
  double share = 0;         ///< Of their pages, in [0, 1].
  std::size_t samples = 0;  ///< Those that could be asked about.
};

/// Asks the kernel, by cachestat(2); reads nothing. Samples whose file is gone are left out.
/// Failure: kUnsupported with the reason where the kernel does not tell, kNotFound where all files
/// are gone.
Result<CachedShare> cached_share(std::span<const watch::SamplePlace> places);

}  // namespace feedrace::view
