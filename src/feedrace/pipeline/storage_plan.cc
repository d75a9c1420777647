// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/storage_plan.h"

#include <algorithm>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <xxhash.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/host/block_device.h"
#include "feedrace/host/file_system.h"
#include "feedrace/host/numa.h"
#include "feedrace/pipeline/direct_plan.h"
#include "feedrace/storage/backends.h"

namespace feedrace::pipeline {
namespace {

// Files of a folder whose sizes and cached pages stand for all of them.
constexpr std::uint64_t kFileSample = 256;

storage::StorageNeeds needs_of(const LoaderOptions& options, const formats::Dataset& dataset,
                               const std::shared_ptr<storage::FallbackLog>& log) {
  storage::StorageNeeds needs;
  needs.backend = options.backend;
  needs.page_cache = options.page_cache;
  needs.queue_depth = options.queue_depth;
  needs.sqpoll = options.sqpoll;
  needs.iopoll = options.iopoll;
  needs.strict = options.fallback == Fallback::kError;
  needs.log = log;
  needs.files = dataset.shards();
  needs.file_count = needs.files.size();
  needs.are_shards = !needs.files.empty();
  if (!needs.are_shards) {
    needs.file_count = dataset.size();
    const std::uint64_t step = std::max<std::uint64_t>(1, dataset.size() / kFileSample);
    for (std::uint64_t i = 0; i < dataset.size(); i += step) needs.files.push_back(dataset.path(i));
  }
  const std::size_t cores = usable_cores();
  const std::size_t used =
      1 + (options.thread_count > 0 ? options.thread_count : default_decode_threads(cores));
  needs.spare_cores = cores > used ? cores - used : 0;
  return needs;
}

/// The device of the first sample.
std::vector<std::string> disks_of(const formats::Dataset& dataset, const std::string& root) {
  if (dataset.size() == 0) return {};
  const auto file_system = host::probe_file_system(dataset.path(0), root);
  if (!file_system) return {};
  const std::string name = host::find_block_device(*file_system, root).name;
  return name.empty() ? std::vector<std::string>() : std::vector{name};
}

/// A sample's bytes reach as far as the fields that are wanted with its image: loaders that want
/// others have nothing to share.
std::string fields_suffix(std::vector<std::string> fields) {
  if (fields.empty()) return "";
  std::sort(fields.begin(), fields.end());
  const std::string names = fmt::format("{}", fmt::join(fields, "\n"));
  return fmt::format("-{:08x}", XXH3_64bits(names.data(), names.size()) & 0xffffffff);
}

/// Ranks that read the same data set share its cache unless they name another.
void open_cache(const LoaderOptions& options, const formats::Dataset& dataset, StoragePlan& plan) {
  if (!options.shared_cache) return;
  storage::SharedCache::Options cache;
  cache.name =
      options.shared_cache->name.empty() ? dataset.fingerprint() : options.shared_cache->name;
  cache.name += fields_suffix(options.fields);
  cache.limit_bytes = options.shared_cache->limit_bytes;
  cache.folder = options.shared_cache->folder;
  auto opened = storage::SharedCache::open(cache);
  if (!opened) raise(opened.error());
  plan.cache = *std::move(opened);
  plan.cache_text = fmt::format("up to {} of samples in {}, shared by all processes that name it{}",
                                human_bytes(cache.limit_bytes), printable(plan.cache->path()),
                                plan.cache->in_memory() ? "" : " (a disk, not memory)");
}

}  // namespace

CacheStats cache_stats(const storage::SharedCache& cache) {
  const storage::SharedCache::Stats stats = cache.stats();
  return {stats.hits,    stats.misses,       stats.full,       stats.busy,
          stats.entries, stats.filled_bytes, stats.limit_bytes};
}

StoragePlan plan_storage(const LoaderOptions& options, const formats::Dataset& dataset,
                         const std::shared_ptr<storage::FallbackLog>& log,
                         const std::string& root) {
  StoragePlan plan;
  open_cache(options, dataset, plan);
  if (options.backend_factory) {
    plan.name = "given by the program";
    plan.reason = "given by the program";
    plan.make_backends.push_back(options.backend_factory);
    plan.make_stand_in = options.backend_factory;
    plan.cpus.emplace_back();
    plan.nodes.push_back(-1);
    return plan;
  }
  if (is_direct(options)) {
    plan.name = options.backend;
    plan.make_backends.emplace_back();  // Made where its memory is.
    plan.disks = disks_of(dataset, root);
    plan.make_stand_in = [] { return storage::simple_backend(); };
    plan.cpus.emplace_back();
    plan.nodes.push_back(-1);
    return plan;
  }
  storage::StorageChoice choice =
      storage::choose_storage(needs_of(options, dataset, log), {root, {}});
  if (choice.is_fallback && options.fallback == Fallback::kError) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("storage: {}; fallback=error refuses what would be used instead ({})",
                            choice.shortfall, choice.name));
  }
  if (choice.is_fallback) log->add(choice.reason);
  plan.name = choice.name;
  plan.reason = choice.reason;
  plan.make_stand_in = [device = choice.devices.front()]() mutable {
    device.engine = storage::Engine::kThreads;
    device.options.queue_depth = 1;
    return device.make();
  };
  // On one node there is nothing to bind to.
  const bool has_nodes = host::node_count(root) > 1;
  for (const storage::DeviceChoice& device : choice.devices) {
    plan.make_backends.push_back([device] { return device.make(); });
    plan.nodes.push_back(has_nodes ? device.device.numa_node : -1);
    plan.cpus.push_back(plan.nodes.back() >= 0 ? device.device.node_cpus
                                               : std::vector<std::size_t>());
    const std::string& disk = device.device.name;
    const bool is_new = std::find(plan.disks.begin(), plan.disks.end(), disk) == plan.disks.end();
    if (!disk.empty() && is_new) plan.disks.push_back(disk);
  }
  if (!dataset.shards().empty()) plan.reader_of_shard = std::move(choice.device_of_file);
  return plan;
}

ReaderParts make_direct_reader(const std::shared_ptr<cuda::DirectMemory>& memory,
                               const Sizing& sizing, std::size_t queue_depth,
                               const std::shared_ptr<storage::FallbackLog>& log) {
  ReaderParts reader;
  reader.make_backend = [memory, queue_depth, log] {
    return std::make_unique<cuda::DirectBackend>(memory, queue_depth, log);
  };
  reader.buffers = BufferPool::create_in(memory->bytes(), memory, sizing.buffers.bytes);
  reader.base_buffers = sizing.buffers.base_count;
  return reader;
}

std::vector<ReaderParts> make_readers(const StoragePlan& storage, const Sizing& sizing,
                                      storage::FallbackLog& log) {
  std::vector<ReaderParts> readers;
  for (std::size_t i = 0; i < storage.make_backends.size(); ++i) {
    ReaderParts reader;
    reader.make_backend = storage.make_backends[i];
    reader.buffers =
        BufferPool::create(sizing.buffers.count, sizing.buffers.bytes, sizing.max_sample_bytes);
    reader.base_buffers = sizing.buffers.base_count;
    reader.cpus = storage.cpus[i];
    if (storage.nodes[i] >= 0) {
      const auto placed = host::prefer_node(reader.buffers->memory(), storage.nodes[i]);
      if (!placed) log.add(placed.error().message);
    }
    readers.push_back(std::move(reader));
  }
  return readers;
}

}  // namespace feedrace::pipeline
