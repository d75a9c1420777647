// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/explain.h"

#include <fmt/format.h>

namespace feedrace::pipeline {
namespace {

// A consumer that waits less than this gets all that it can take.
constexpr double kUnnoticedWait = 0.05;
// Threads busier than this are what everything else waits for.
constexpr double kSaturated = 0.8;
// A reader that waits for the device less than this is not what decode threads wait for.
constexpr double kReadsMatter = 0.3;
// In fewer batches there is little to see but the start: the first batch waits for everything.
constexpr std::uint64_t kTellingBatches = 5;
// Threads that are busy but this little on a core share it with somebody else.
constexpr double kOwnCore = 0.8;

double share(double part, double rest) { return part + rest > 0 ? part / (part + rest) : 0; }

const StageStats* find(const Stats& stats, const std::string& name) {
  for (const StageStats& stage : stats.stages) {
    if (stage.name == name) return &stage;
  }
  return nullptr;
}

/// Where most bytes came from, when that was no device; else null.
const char* memory_source(const Stats& stats) {
  if (stats.shared_cache && stats.shared_cache->hits > stats.reads) return "the shared cache";
  std::uint64_t read = 0;
  for (const std::uint64_t bytes : stats.bytes_by_path) read += bytes;
  const std::uint64_t copied = stats.bytes_by_path[static_cast<std::size_t>(Path::kPageCache)];
  // A read that waits for a device takes longer; one out of memory takes as long as its copy.
  constexpr std::uint64_t kFromMemoryNs = 1'000'000;
  const bool is_quick = stats.read_latency.quantile_ns(0.5) < kFromMemoryNs;
  return copied > read / 2 && is_quick ? "the page cache" : nullptr;
}

std::string verdict(const Stats& stats, bool reads_only) {
  const StageStats* decode = find(stats, "decode");
  const StageStats* consumer = find(stats, "consumer");
  if (decode == nullptr || consumer == nullptr || stats.batches == 0) {
    return "no verdict yet: no batch was delivered";
  }
  const double waited = share(consumer->wait_seconds, consumer->busy_seconds);
  const double busy = share(decode->busy_seconds, decode->wait_seconds);
  const std::string evidence =
      fmt::format("the consumer waited {:.0f} % of the time, {} decode threads were {:.0f} % busy",
                  waited * 100, decode->thread_count, busy * 100);
  if (stats.batches < kTellingBatches) {
    return fmt::format(
        "the run is too short to tell what limits: after {} batch{}, {}, and most of that is the "
        "start; ask again after {}",
        stats.batches, stats.batches == 1 ? "" : "es", evidence, kTellingBatches);
  }
  const StageStats* device = find(stats, "device");
  // Before the consumer, which waits for the GPU while it seems busy.
  if (device != nullptr && share(device->busy_seconds, device->wait_seconds) >= kSaturated) {
    return fmt::format(
        "the GPU's stage limits: {}, and the thread that has pictures decoded on the GPU was "
        "{:.0f} "
        "% busy; try decode_device=\"cpu\" where cores are idle, or another hardware_share",
        evidence, share(device->busy_seconds, device->wait_seconds) * 100);
  }
  if (waited < kUnnoticedWait) return "the consumer limits: " + evidence + "; nothing to do here";
  if (busy >= kSaturated) {
    const double on_core = share(decode->cpu_seconds, decode->busy_seconds - decode->cpu_seconds);
    if (decode->cpu_seconds > 0 && on_core < kOwnCore) {
      return fmt::format(
          "cores limit: {}, but on a core only {:.0f} % of that time; other processes, or more "
          "threads than cores, take the rest: free cores, or use fewer threads",
          evidence, on_core * 100);
    }
    return "decode limits: " + evidence + "; more cores, or smaller pictures, would help";
  }
  const StageStats* io = find(stats, "io");
  const char* source = reads_only && io != nullptr ? memory_source(stats) : nullptr;
  if (source != nullptr) {
    return fmt::format(
        "reading out of memory limits: {}, and most bytes came out of {} by {} I/O thread{}; no "
        "disk "
        "is waited for",
        evidence, source, io->thread_count, io->thread_count == 1 ? "" : "s");
  }
  if (io != nullptr && !reads_only && share(io->busy_seconds, io->wait_seconds) < kReadsMatter) {
    return "a few slow samples limit: " + evidence +
           ", and reads were hardly waited for; look for pictures far larger than the rest, or "
           "decode "
           "further ahead (prefetch_factor)";
  }
  return fmt::format(
      "storage limits: {}, a read took {:.1f} ms in the middle and {:.1f} ms at the 99th "
      "percentile; faster storage, larger shards or a deeper queue would help",
      evidence, static_cast<double>(stats.read_latency.quantile_ns(0.5)) * 1e-6,
      static_cast<double>(stats.read_latency.quantile_ns(0.99)) * 1e-6);
}

}  // namespace

std::string explain(const Stats& stats, const Pipeline& pipeline) {
  std::string sentence = verdict(stats, pipeline.reads_only);
  for (const std::string& step : pipeline.unfused()) sentence += "; " + step;
  return sentence;
}

}  // namespace feedrace::pipeline
