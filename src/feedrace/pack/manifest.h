// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/formats/packed_set.h"

namespace feedrace::pack {

/// Of the manifest's layout.
inline constexpr std::uint64_t kManifestVersion = 1;
using formats::kManifestFile;

/// `manifest.json` in a folder of packed shards: what belongs to the set, and what each shard's
/// bytes are. A set without one is not finished.
struct Manifest {
  struct Shard {
    std::string name;  ///< Base name.
    std::uint64_t size_bytes = 0;
    std::uint64_t sample_count = 0;
    /// Of the whole file: XXH3 of 128 bits, 32 hex digits, as `xxhsum -H2` prints it.
    std::string xxh3_128;

    bool operator==(const Shard&) const = default;
  };
  /// A sample of the source that is in no shard.
  struct LeftOut {
    std::string key;  ///< Any bytes but 0.
    std::string reason;

    bool operator==(const LeftOut&) const = default;
  };

  std::string source;   ///< Fingerprint of what was packed, `Dataset::fingerprint()`.
  std::string options;  ///< JSON text of what decides about the shards' bytes.
  /// Of the class list beside the shards, as of a shard; empty where there is none, and in
  /// manifests that are older than this member.
  std::string classes_xxh3_128;
  std::vector<Shard> shards;  ///< In order.
  std::vector<LeftOut> left_out;

  std::uint64_t sample_count() const noexcept;
  std::uint64_t size_bytes() const noexcept;

  std::string to_json() const;
  /// Failure: kCorruptData: not JSON, a member missing or of the wrong type, a shard named twice or
  /// with a folder in its name, sums that disagree, another version.
  static Result<Manifest> from_json(std::string_view text);

  bool operator==(const Manifest&) const = default;
};

/// The manifest of folder `path`. Failures: kNotFound where there is none, kIo, kCorruptData.
Result<Manifest> read_manifest(const std::string& path);

}  // namespace feedrace::pack
