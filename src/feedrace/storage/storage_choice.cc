// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/storage_choice.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <map>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/host/page_cache.h"
#include "feedrace/storage/posix_file.h"
#include "feedrace/storage/uring_ring.h"

namespace feedrace::storage {
namespace {

// Files whose cached pages are looked at; evenly chosen.
constexpr std::size_t kResidencyFiles = 32;
// From this share of cached bytes up, the page cache is faster than the device.
constexpr double kMostlyCached = 0.9;

void check(const StorageNeeds& needs) {
  const auto names = backend_names();
  if (needs.backend != "auto" &&
      std::find(names.begin(), names.end(), needs.backend) == names.end()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("storage back end: \"{}\" is not known; use auto, {}",
                            printable(needs.backend), fmt::join(names, ", ")));
  }
  check_queue_depth(needs.queue_depth);
  if (needs.backend == "direct" && needs.page_cache == PageCache::kKeep) {
    throw Error(ErrorCode::kInvalidArgument,
                "storage back end: direct reads past the page cache, so page_cache=keep can't be "
                "had; use uring or buffered, or page_cache=drop");
  }
}

/// What is known of the data before the first read.
struct Data {
  std::uint64_t bytes = 0;              // Of all files; 0: unknown.
  std::optional<double> cached_share;   // Of those looked at.
  std::vector<std::uint32_t> group_of;  // For each file; the same file system, the same group.
  std::vector<std::string> first_of;    // A file of each group.
};

/// Groups files by file system, and adds up their sizes. What can't be asked joins the first group:
/// opening it will say why.
Data look_at(const StorageNeeds& needs) {
  Data data;
  std::map<dev_t, std::uint32_t> groups;
  std::uint64_t bytes = 0;
  std::uint64_t seen = 0;
  for (const std::string& path : needs.files) {
    struct stat info{};
    std::uint32_t group = 0;
    if (stat(path.c_str(), &info) == 0) {
      const dev_t device = S_ISBLK(info.st_mode) ? info.st_rdev : info.st_dev;
      const auto next = static_cast<std::uint32_t>(groups.size());
      const auto [at, is_new] = groups.emplace(device, next);
      if (is_new) data.first_of.push_back(path);
      group = at->second;
      bytes += static_cast<std::uint64_t>(info.st_size);
      ++seen;
    }
    data.group_of.push_back(group);
  }
  if (seen > 0) {
    const double mean = static_cast<double>(bytes) / static_cast<double>(seen);
    data.bytes = needs.file_count > needs.files.size()
                     ? static_cast<std::uint64_t>(mean * static_cast<double>(needs.file_count))
                     : bytes;
  }
  return data;
}

/// Nothing where the kernel does not say (other people's files).
std::optional<double> cached_share(const std::vector<std::string>& files) {
  double cached = 0;
  double total = 0;
  const std::size_t step = std::max<std::size_t>(1, files.size() / kResidencyFiles);
  for (std::size_t i = 0; i < files.size(); i += step) {
    const FileDescriptor fd(open(files[i].c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
    struct stat info{};
    if (!fd || fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) continue;
    const auto resident = host::residency(fd.get(), 0, 0);
    if (!resident) return std::nullopt;
    const auto size = static_cast<double>(info.st_size);
    total += size;
    cached += std::min(size, static_cast<double>(resident->cached_bytes));
  }
  if (total == 0) return std::nullopt;
  return cached / total;
}

/// Keep pages or leave none, and why.
struct Manners {
  bool keeps = false;
  std::string why;
};

Manners choose_manners(const StorageNeeds& needs, const Data& data, const StorageProbe& probe) {
  if (needs.backend == "direct") return {false, "direct was asked for"};
  if (needs.page_cache == PageCache::kKeep) return {true, "page_cache=keep was asked for"};
  if (needs.page_cache == PageCache::kDrop) return {false, "page_cache=drop was asked for"};
  if (data.bytes == 0) return {true, "the size of the data is not known"};
  const auto available = probe.available_memory_bytes ? probe.available_memory_bytes
                                                      : available_memory_bytes(probe.root);
  const std::string size = human_bytes(data.bytes);
  if (!available) return {true, fmt::format("the free memory for {} of data is not known", size)};
  const std::string half = human_bytes(*available / 2);
  if (data.bytes <= *available / 2) {
    return {true, fmt::format("the data ({}) fit into half of the free memory ({}), so what is "
                              "read again comes out of it",
                              size, half)};
  }
  if (data.cached_share && *data.cached_share >= kMostlyCached) {
    return {true, fmt::format("{:.0f} % of the data are cached", 100 * *data.cached_share)};
  }
  return {false,
          fmt::format("the data ({}) do not fit into half of the free memory ({})", size, half)};
}

std::string place_of(const DeviceChoice& choice) {
  std::string place =
      choice.file_system.type.empty() ? "an unknown file system" : choice.file_system.type;
  if (!choice.device.name.empty()) place += " on " + choice.device.name;
  return place;
}

const char* name_of(Access access, bool has_uncached_reads) {
  if (access == Access::kDirect) return "O_DIRECT";
  if (access == Access::kPageCache) return "page cache";
  return has_uncached_reads ? "uncached (RWF_DONTCACHE)" : "page cache, given up behind each read";
}

/// The way with the fewest copies that the file system has and the manners allow.
Access choose_access(const StorageNeeds& needs, const Manners& manners,
                     const host::FileSystem& file_system) {
  if (manners.keeps) return Access::kPageCache;
  if (needs.backend == "direct") return Access::kDirect;
  if (file_system.is_in_memory) return Access::kPageCache;  // There is nothing to give up.
  if (needs.backend == "buffered") return Access::kUncached;
  return file_system.direct_alignment_bytes > 0 ? Access::kDirect : Access::kUncached;
}

DeviceChoice choose_device(const StorageNeeds& needs, const Manners& manners, Engine engine,
                           const std::string& file, const StorageProbe& probe) {
  DeviceChoice choice;
  choice.engine = engine;
  if (!file.empty()) {
    if (auto asked = host::probe_file_system(file, probe.root)) {
      choice.file_system = *std::move(asked);
      choice.device = host::find_block_device(choice.file_system, probe.root);
    }
  }
  BackendOptions& options = choice.options;
  options.queue_depth = needs.queue_depth;
  options.strict = needs.strict;
  options.log = needs.log;
  options.access = choose_access(needs, manners, choice.file_system);
  options.sqpoll =
      engine == Engine::kUring && needs.sqpoll.value_or(needs.spare_cores >= kSqpollSpareCores);
  options.iopoll = engine == Engine::kUring && needs.iopoll && choice.device.has_polled_queues &&
                   options.access == Access::kDirect;
  // O_DIRECT that was asked for where there is none.
  const bool is_vain = options.access == Access::kDirect && !choice.file_system.type.empty() &&
                       choice.file_system.direct_alignment_bytes == 0;
  const Access had = !is_vain                          ? options.access
                     : choice.file_system.is_in_memory ? Access::kPageCache
                                                       : Access::kUncached;
  choice.reason = fmt::format("{} of {}", name_of(had, choice.file_system.has_uncached_reads),
                              place_of(choice));
  if (options.access == Access::kDirect && choice.file_system.direct_alignment_bytes > 0) {
    choice.reason += fmt::format(" in multiples of {}", choice.file_system.direct_alignment_bytes);
  } else if (!manners.keeps && needs.backend != "direct" &&
             !choice.file_system.direct_refusal.empty()) {
    choice.reason += fmt::format(" ({})", choice.file_system.direct_refusal);
  }
  if (options.sqpoll) choice.reason += ", SQPOLL";
  if (options.iopoll) choice.reason += ", IOPOLL";
  return choice;
}

/// Why a device is not read as the user has fixed it; empty: it is.
std::string shortfall(const StorageNeeds& needs, const DeviceChoice& choice) {
  if (needs.backend == "direct" && choice.file_system.direct_alignment_bytes == 0 &&
      !choice.file_system.type.empty()) {
    return fmt::format("O_DIRECT can't be had: {}; use uring or buffered",
                       choice.file_system.direct_refusal);
  }
  if (choice.options.access == Access::kUncached && !choice.file_system.has_uncached_reads &&
      !choice.file_system.type.empty()) {
    return fmt::format(
        "uncached reads (RWF_DONTCACHE) are not supported by {}, so pages are given up behind each "
        "read instead; use uring or direct where there is O_DIRECT, or page_cache=keep",
        choice.file_system.type);
  }
  if (needs.iopoll && !choice.options.iopoll) {
    return fmt::format(
        "IOPOLL can't be had: {}; leave it out, or give an NVMe drive polled queues "
        "(nvme.poll_queues=N)",
        choice.options.access != Access::kDirect ? "it needs O_DIRECT, so page_cache=drop"
        : choice.engine != Engine::kUring        ? "it needs io_uring"
        : choice.device.name.empty()
            ? "the device is not known"
            : fmt::format("{} has no polled queues (queue/io_poll is not 1)", choice.device.name));
  }
  if (needs.sqpoll.value_or(false) && choice.engine != Engine::kUring) {
    return "SQPOLL can't be had: it needs io_uring; leave it out";
  }
  return {};
}

}  // namespace

std::unique_ptr<Backend> DeviceChoice::make() const {
  auto made = create_backend(engine, options);
  if (made) return *std::move(made);
  // It could be had when it was chosen: a limit that somebody else has used up since.
  if (options.log) options.log->add(made.error().message);
  if (options.strict) throw Error(made.error().code, made.error().message);
  auto threads = create_backend(Engine::kThreads, options);
  return *std::move(threads);
}

std::vector<std::string_view> backend_names() { return {"uring", "direct", "buffered"}; }

StorageChoice choose_storage(const StorageNeeds& needs, const StorageProbe& probe) {
  check(needs);
  StorageChoice choice;
  const bool wants_uring = needs.backend == "auto" || needs.backend == "uring";
  Result<void> uring;
  if (wants_uring) uring = probe_uring();
  const Engine engine = wants_uring && uring ? Engine::kUring : Engine::kThreads;
  Data data = look_at(needs);
  if (needs.backend != "direct" && needs.page_cache == PageCache::kAuto) {
    data.cached_share = cached_share(needs.files);
  }
  const Manners manners = choose_manners(needs, data, probe);
  const std::size_t groups = needs.are_shards ? data.first_of.size() : 1;
  for (std::size_t i = 0; i < std::max<std::size_t>(1, groups); ++i) {
    choice.devices.push_back(choose_device(
        needs, manners, engine, i < data.first_of.size() ? data.first_of[i] : "", probe));
  }
  choice.device_of_file = std::move(data.group_of);
  if (!needs.are_shards) choice.device_of_file.assign(needs.files.size(), 0);

  const bool is_direct = choice.devices.front().options.access == Access::kDirect;
  choice.name = engine == Engine::kUring ? "uring" : is_direct ? "direct" : "buffered";
  std::vector<std::string> ways;
  std::vector<std::string> shortfalls;
  if (wants_uring && !uring) shortfalls.push_back(uring.error().message);
  for (const DeviceChoice& device : choice.devices) {
    ways.push_back(device.reason);
    const std::string text = shortfall(needs, device);
    const bool is_new = std::find(shortfalls.begin(), shortfalls.end(), text) == shortfalls.end();
    if (!text.empty() && is_new) shortfalls.push_back(text);
  }
  choice.is_fallback = !shortfalls.empty();
  choice.reason = fmt::format("{}, {}: {}", choice.name, fmt::join(ways, "; "), manners.why);
  if (choice.is_fallback) {
    const std::string wanted = needs.backend == "auto" ? "uring" : needs.backend;
    choice.shortfall = fmt::format("{}", fmt::join(shortfalls, "; "));
    const std::string change =
        wanted == choice.name ? "" : choice.name + " instead of " + wanted + ": ";
    choice.reason = fmt::format("{}{}; {}", change, choice.shortfall, choice.reason);
  }
  return choice;
}

}  // namespace feedrace::storage
