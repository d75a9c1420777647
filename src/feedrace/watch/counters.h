// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "feedrace/watch/snapshot.h"

namespace feedrace::watch {

/// A value of a counter: of all, or of one member of what its label tells apart.
struct CounterValue {
  std::string member;  ///< "decode" of the label "stage"; empty without a label.
  double value = 0;
};

/// What there is to count, told once: metrics, top and the report all read this.
struct Counter {
  enum class Type : std::uint8_t { kCounter, kGauge, kLatency };

  const char* name;   ///< "stage_busy_seconds": ends with its unit.
  Type type;          ///< kCounter only grows; kLatency is `Stats::read_latency`.
  const char* unit;   ///< "seconds", "bytes"; "" where it counts.
  const char* help;   ///< One sentence.
  const char* label;  ///< What tells values apart: "stage"; null: one value.
  std::vector<CounterValue> (*read)(const Snapshot& snapshot);
};

std::span<const Counter> counters();

/// Upper edges of the buckets in which latencies are shown, in ascending order.
std::span<const std::uint64_t> latency_edges_ns();

/// For Prometheus: OpenMetrics 1.0, with its end.
std::string openmetrics(const Snapshot& snapshot);
inline constexpr const char* kOpenMetricsType =
    "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The same as JSON: "facts", "verdict", "counters": {name: value, or {member: value}, or of
/// latencies {"count", "sum", "buckets": [[upper edge in seconds, so many below]]}}, "fallbacks",
/// "complaints".
nlohmann::ordered_json to_json(const Snapshot& snapshot);

/// "count", "sum", "p50", "p99", "max", and "buckets" as above; times in seconds.
nlohmann::ordered_json to_json(const LatencyHistogram& latency);

/// A list of [path, offset, size], for who wants to know what of the data is cached.
nlohmann::json to_json(std::span<const SamplePlace> places);
/// Back again; nothing where it is no such list.
std::optional<std::vector<SamplePlace>> places_from_json(const nlohmann::json& value);

}  // namespace feedrace::watch
