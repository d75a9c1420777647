// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "feedrace/pack/manifest.h"
#include "feedrace/pack/verify_run.h"

namespace feedrace::pack {

/// What lies beside the shards in a folder that was packed into: findings about what a run that did
/// not end left there, and about the class list that the manifest promises (null: no manifest).
std::vector<Found> look_at_packed_folder(const std::string& folder, const Manifest* manifest);

}  // namespace feedrace::pack
