// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>

#include "feedrace/format.h"
#include "feedrace/storage/shared_cache.h"

namespace feedrace::pipeline {

/// Looks samples up in the cache that the processes of a node share. One thread.
class CachedSamples {
 public:
  CachedSamples(std::shared_ptr<storage::SharedCache> cache, const formats::Dataset& dataset)
      : cache_(std::move(cache)), dataset_(dataset) {}

  struct Sought {
    storage::SharedCache::Found found;
    std::uint64_t begin_bytes = 0;  ///< Where the read of a claim begins in the file; aligned.
    std::size_t read_bytes = 0;     ///< How long it is; aligned.
    std::size_t skip_bytes = 0;     ///< From there to the sample.
    std::size_t sample_bytes = 0;

    /// The sample in what was read or found; nothing when that is too short.
    std::optional<std::span<const std::byte>> sample_in(std::span<const std::byte> bytes) const {
      if (skip_bytes + sample_bytes > bytes.size()) return std::nullopt;
      return bytes.subspan(skip_bytes, sample_bytes);
    }
  };
  /// Nothing when the file can't be asked for its identity: opening it will say why.
  std::optional<Sought> find(std::uint64_t sample, const formats::Place& place);

  /// What keeps found bytes alive.
  std::shared_ptr<const void> owner() const noexcept { return cache_; }

 private:
  const struct stat* shard_info(std::uint32_t shard);

  const std::shared_ptr<storage::SharedCache> cache_;
  const formats::Dataset& dataset_;
  std::unordered_map<std::uint32_t, struct stat> shards_;
};

}  // namespace feedrace::pipeline
