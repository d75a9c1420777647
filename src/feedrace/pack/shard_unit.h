// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/formats/shard_index.h"
#include "feedrace/formats/shard_scan.h"
#include "feedrace/pack/manifest.h"
#include "feedrace/pack/verify_run.h"
#include "feedrace/verify.h"

namespace feedrace::pack {

/// The shards of a set, as `VerifyRun` takes them.
struct ShardSources {
  std::vector<std::string> paths;
  /// What the manifest says of each; nothing where it says nothing.
  std::vector<std::optional<Manifest::Shard>> promised;
  formats::LabelSource labels;
  /// A stored index that a loader would take: shard i of it is path i.
  std::optional<formats::ShardIndex> index;
};

/// Of samples of which others have one.
inline constexpr const char* kMissingLabels = "samples without a label, though others have one";

/// Scans shard `number`: its structure, fields and labels, and whether index and manifest say the
/// same of it. `sources` and `options` must outlive the unit.
OpenedUnit open_shard_unit(const ShardSources& sources, std::size_t number,
                           const VerifyOptions& options, VerifyThread& thread);

}  // namespace feedrace::pack
