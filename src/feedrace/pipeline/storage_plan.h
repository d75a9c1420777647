// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "feedrace/loader.h"
#include "feedrace/pipeline/plan.h"
#include "feedrace/pipeline/run.h"
#include "feedrace/storage/fallback_log.h"
#include "feedrace/storage/shared_cache.h"
#include "feedrace/storage/storage_choice.h"

namespace feedrace::pipeline {

/// How a loader's data are read.
struct StoragePlan {
  std::string name;    ///< Of the back end.
  std::string reason;  ///< One line.
  /// One a device; the program's own factory is one too.
  std::vector<ReadStage::MakeBackend> make_backends;
  /// Of what reads stand-ins for bad samples, by the same path: one read at a time, not worth a
  /// ring.
  ReadStage::MakeBackend make_stand_in;
  std::vector<std::vector<std::size_t>> cpus;  ///< Of the device's NUMA node; empty: anywhere.
  std::vector<int> nodes;                      ///< -1: unknown.
  std::vector<std::uint32_t> reader_of_shard;
  std::vector<std::string> disks;               ///< "nvme0n1", each once; empty: none is known.
  std::shared_ptr<storage::SharedCache> cache;  ///< Null: none was asked for.
  std::string cache_text;                       ///< For the plan.
};

CacheStats cache_stats(const storage::SharedCache& cache);

/// Asks the machine, whose /proc and /sys lie under `root` (tests), and decides. Fallbacks are
/// counted in `log`, which the back ends share. Throws Error: kUnsupported when the options refuse
/// what would be used instead; what `storage::choose_storage` and opening the shared cache throw.
StoragePlan plan_storage(const LoaderOptions& options, const formats::Dataset& dataset,
                         const std::shared_ptr<storage::FallbackLog>& log,
                         const std::string& root = "/");

/// A pool of buffers for each reader, on its device's node where that is known.
std::vector<ReaderParts> make_readers(const StoragePlan& storage, const Sizing& sizing,
                                      storage::FallbackLog& log);

/// The only reader of samples that cuFile reads, into `memory`, of `sizing.buffers`.
ReaderParts make_direct_reader(const std::shared_ptr<cuda::DirectMemory>& memory,
                               const Sizing& sizing, std::size_t queue_depth,
                               const std::shared_ptr<storage::FallbackLog>& log);

}  // namespace feedrace::pipeline
