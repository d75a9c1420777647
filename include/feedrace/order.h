// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace feedrace {

/// How the samples of a data set are put in order, anew each epoch.
enum class Shuffle : std::uint8_t {
  kNone,    ///< The stored order, or the one that a subset gives.
  kWindow,  ///< Chunks of neighbours in random order, samples mixed inside a window of chunks.
  kGlobal,  ///< Any sample may follow any other.
};
const char* to_string(Shuffle shuffle) noexcept;  ///< "none", "window", "global".

/// Samples that lie side by side in a chunk: at 110 KB an image, 1.8 MB are read in one go, where
/// random reads are about as fast as sequential ones. Chunks of 64 mix less than half as well.
inline constexpr std::uint64_t kDefaultShuffleChunk = 16;
/// Samples that a window mixes: as many as DALI's default buffer holds, 450 MB of such images.
inline constexpr std::uint64_t kDefaultShuffleWindow = 4096;

/// What becomes of the samples behind the last global batch that is full. A global batch is what
/// all ranks together get in one step: `world_size * batch_size` samples. Every rank gets the same
/// number of batches, and batches of the same size, by each of these rules.
enum class LastBatch : std::uint8_t {
  kDrop,     ///< Left out.
  kPad,      ///< Repeats from the epoch's start, flagged, make them divide evenly: a short batch.
  kPartial,  ///< Delivered short, nothing repeated; refused where they do not divide evenly.
  kFill,     ///< Repeats, flagged, make it a full batch: every batch has the same shape.
};
const char* to_string(LastBatch last_batch) noexcept;  ///< "drop", "pad", "partial", "fill".

/// Which samples of a data set are used. The conditions hold together; without any, all are used.
/// Keys are compared in their canonical form (`formats::canonical_key`), which a file and the shard
/// member packed from it have in common.
struct Subset {
  /// Sample numbers: these, in this order; one that comes twice is delivered twice an epoch.
  std::optional<std::vector<std::uint64_t>> indices;
  /// Keys: these, in this order. Not together with `indices`.
  std::optional<std::vector<std::string>> keys;
  /// Keys that match this pattern, in their canonical form or as the data set has them (with the
  /// suffix of a file): `*` any characters, also /, `?` one, `[a-z]` a set. Empty: all.
  std::string key_pattern;
  /// Keys that this is true of; called once a sample, from one thread.
  std::function<bool(std::string_view key)> key_filter;
  /// What `key_filter` does, for the state: two runs that must agree give the same text.
  std::string key_filter_name;
  /// Keys whose hash lies in [begin, end) of [0, 1): a split that a sample never leaves, whatever
  /// is added to the set or taken out. {0, 0.9} and {0.9, 1} are disjoint and make up the whole.
  struct Share {
    double begin = 0;
    double end = 1;
  };
  std::optional<Share> share;
  /// Another salt is another split.
  std::uint64_t share_salt = 0;
};

}  // namespace feedrace
