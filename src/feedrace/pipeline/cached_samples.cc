// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/cached_samples.h"

#include "feedrace/core/alignment.h"
#include "feedrace/storage/access.h"

namespace feedrace::pipeline {
namespace {

// Enough for O_DIRECT on every file system, whichever the process that reads is on.
constexpr std::uint64_t kAlignment = storage::whole_file_alignment(storage::Access::kDirect);

}  // namespace

const struct stat* CachedSamples::shard_info(std::uint32_t shard) {
  const auto [at, is_new] = shards_.try_emplace(shard);
  if (is_new && stat(dataset_.shards()[shard].c_str(), &at->second) != 0) {
    shards_.erase(at);
    return nullptr;
  }
  return &at->second;
}

std::optional<CachedSamples::Sought> CachedSamples::find(std::uint64_t sample,
                                                         const formats::Place& place) {
  struct stat own{};
  const struct stat* info = &own;
  Sought sought;
  if (place.shard == formats::Place::kOwnFile) {
    if (stat(dataset_.path(sample).c_str(), &own) != 0 || !S_ISREG(own.st_mode)) {
      return std::nullopt;
    }
    sought.sample_bytes = static_cast<std::size_t>(own.st_size);
  } else {
    info = shard_info(place.shard);
    if (info == nullptr) return std::nullopt;
    sought.begin_bytes = round_down(place.offset_bytes, kAlignment);
    sought.skip_bytes = static_cast<std::size_t>(place.offset_bytes - sought.begin_bytes);
    sought.sample_bytes = static_cast<std::size_t>(place.size_bytes);
  }
  // An empty sample is nothing to keep.
  if (sought.sample_bytes == 0) return std::nullopt;
  const std::uint64_t end = sought.skip_bytes + sought.sample_bytes;
  sought.read_bytes = static_cast<std::size_t>(round_up(end, kAlignment));
  sought.found = cache_->find_or_claim(
      storage::key_of(*info, sought.begin_bytes, sought.read_bytes), sought.read_bytes);
  return sought;
}

}  // namespace feedrace::pipeline
