// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/explain.h"

#include <fmt/format.h>

namespace feedrace::pipeline {
namespace {

// A consumer that waits less than this gets all that it can take.
constexpr double kUnnoticedWait = 0.05;
// Threads busier than this are what everything else waits for.
constexpr double kSaturated = 0.8;

double share(double part, double rest) { return part + rest > 0 ? part / (part + rest) : 0; }

const StageStats* find(const Stats& stats, const std::string& name) {
  for (const StageStats& stage : stats.stages) {
    if (stage.name == name) return &stage;
  }
  return nullptr;
}

}  // namespace

std::string explain(const Stats& stats) {
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
  if (waited < kUnnoticedWait) return "the consumer limits: " + evidence + "; nothing to do here";
  if (busy >= kSaturated) {
    return "decode limits: " + evidence + "; more cores, or smaller pictures, would help";
  }
  return fmt::format(
      "storage limits: {}, a read took {:.1f} ms in the middle and {:.1f} ms at the 99th "
      "percentile; faster storage, larger shards or a deeper queue would help",
      evidence, static_cast<double>(stats.read_latency.quantile_ns(0.5)) * 1e-6,
      static_cast<double>(stats.read_latency.quantile_ns(0.99)) * 1e-6);
}

}  // namespace feedrace::pipeline
