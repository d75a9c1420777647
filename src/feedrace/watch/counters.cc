// SPDX-License-Identifier: Apache-2.0
#include "feedrace/watch/counters.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"

namespace feedrace::watch {
namespace {

using Values = std::vector<CounterValue>;

Values one(double value) { return {{"", value}}; }
Values one(std::uint64_t value) { return one(static_cast<double>(value)); }

template <std::uint64_t Stats::* kMember>
Values of_stats(const Snapshot& snapshot) {
  return one(snapshot.stats.*kMember);
}

/// A value a stage.
template <auto kMember>
Values of_stages(const Snapshot& snapshot) {
  Values values;
  for (const StageStats& stage : snapshot.stats.stages) {
    values.push_back({stage.name, static_cast<double>(stage.*kMember)});
  }
  return values;
}

template <std::uint64_t CacheStats::* kMember>
Values of_cache(const Snapshot& snapshot) {
  const auto& cache = snapshot.stats.shared_cache;
  return cache ? one((*cache).*kMember) : Values();
}

Values bytes_by_path(const Snapshot& snapshot) {
  Values values;
  for (std::size_t i = 0; i < kPathCount; ++i) {
    values.push_back(
        {to_string(static_cast<Path>(i)), static_cast<double>(snapshot.stats.bytes_by_path.at(i))});
  }
  return values;
}

Values copies_per_byte(const Snapshot& snapshot) { return one(snapshot.stats.copies_per_byte()); }
Values age(const Snapshot& snapshot) { return one(snapshot.stats.seconds); }
Values latency(const Snapshot&) { return {}; }  // Has a form of its own.

Values queues(const Snapshot& snapshot) {
  Values values;
  for (const auto& [name, level] : snapshot.levels) {
    std::string word = name;
    std::replace(word.begin(), word.end(), ' ', '_');
    values.push_back({std::move(word), static_cast<double>(level)});
  }
  return values;
}

Values fallbacks(const Snapshot& snapshot) {
  std::uint64_t count = 0;
  for (const FallbackCount& each : snapshot.stats.fallbacks) count += each.count;
  return one(count);
}

Values jpeg_pictures(const Snapshot& snapshot) {
  const JpegStats& jpeg = snapshot.stats.jpeg;
  return {{"feedrace", static_cast<double>(jpeg.feedrace)},
          {"libjpeg_turbo", static_cast<double>(jpeg.libjpeg_turbo)},
          {"damaged", static_cast<double>(jpeg.damaged)}};
}

Values device_pictures(const Snapshot& snapshot) {
  const auto& device = snapshot.stats.device;
  if (!device) return {};
  return {{"hardware", static_cast<double>(device->hardware_decoded)},
          {"software", static_cast<double>(device->software_decoded)},
          {"host", static_cast<double>(device->host_decoded)}};
}

Values device_bytes(const Snapshot& snapshot) {
  const auto& device = snapshot.stats.device;
  return device ? one(device->copied_bytes) : Values();
}

using Type = Counter::Type;
constexpr Counter kCounters[] = {
    {"age_seconds", Type::kGauge, "seconds", "Time since the loader was made.", nullptr, age},
    {"samples", Type::kCounter, "", "Samples delivered to the consumer, padding excluded.", nullptr,
     of_stats<&Stats::samples>},
    {"batches", Type::kCounter, "", "Batches delivered to the consumer.", nullptr,
     of_stats<&Stats::batches>},
    {"bad_samples", Type::kCounter, "", "Samples that could not be read or decoded.", nullptr,
     of_stats<&Stats::bad_samples>},
    {"substituted_samples", Type::kCounter, "", "Bad samples replaced by another one.", nullptr,
     of_stats<&Stats::substituted_samples>},
    {"blanked_samples", Type::kCounter, "", "Bad samples delivered as zeros.", nullptr,
     of_stats<&Stats::blanked_samples>},
    {"padded_samples", Type::kCounter, "", "Repeats that fill a batch.", nullptr,
     of_stats<&Stats::padded_samples>},
    {"flagged_samples", Type::kCounter, "", "Delivered although the decoder complained.", nullptr,
     of_stats<&Stats::flagged_samples>},
    {"extra_slots", Type::kCounter, "", "Batch slots made because the consumer keeps batches.",
     nullptr, of_stats<&Stats::extra_slots>},
    {"reads", Type::kCounter, "", "Read requests that completed.", nullptr,
     of_stats<&Stats::reads>},
    {"read_bytes", Type::kCounter, "bytes", "Bytes read, by the path that they really took.",
     "path", bytes_by_path},
    {"copies_per_byte", Type::kGauge, "",
     "CPU copies of each byte between the store and the decoder's input.", nullptr,
     copies_per_byte},
    {"read_latency_seconds", Type::kLatency, "seconds", "From submission to completion of a read.",
     nullptr, latency},
    {"stage_threads", Type::kGauge, "", "Threads of a stage.", "stage",
     of_stages<&StageStats::thread_count>},
    {"stage_busy_seconds", Type::kCounter, "seconds", "Time at work, summed over threads.", "stage",
     of_stages<&StageStats::busy_seconds>},
    {"stage_wait_seconds", Type::kCounter, "seconds",
     "Time waiting for input or room, summed over threads.", "stage",
     of_stages<&StageStats::wait_seconds>},
    {"stage_cpu_seconds", Type::kCounter, "seconds",
     "Of the time at work, that on a core; 0 where it is not measured.", "stage",
     of_stages<&StageStats::cpu_seconds>},
    {"stage_items", Type::kCounter, "", "Samples (io, decode) or batches (device, consumer).",
     "stage", of_stages<&StageStats::item_count>},
    {"queue_length", Type::kGauge, "", "How full the queues between stages are.", "queue", queues},
    {"fallbacks", Type::kCounter, "", "Times that something wanted could not be had.", nullptr,
     fallbacks},
    {"jpeg_pictures", Type::kCounter, "", "JPEG pictures decoded on the CPU, by who did it.", "by",
     jpeg_pictures},
    {"crop_indexed", Type::kCounter, "", "Pictures decoded from their crop index.", nullptr,
     of_stats<&Stats::crop_indexed>},
    {"crop_index_refused", Type::kCounter, "", "Pictures whose crop index did not fit.", nullptr,
     of_stats<&Stats::crop_index_refused>},
    {"device_copied_bytes", Type::kCounter, "bytes", "Copied from host memory to the GPU.", nullptr,
     device_bytes},
    {"device_pictures", Type::kCounter, "", "Pictures of batches for a GPU, by where decoded.",
     "by", device_pictures},
    {"shared_cache_hits", Type::kCounter, "", "Samples that the shared cache had.", nullptr,
     of_cache<&CacheStats::hits>},
    {"shared_cache_misses", Type::kCounter, "", "Samples read and kept in the shared cache.",
     nullptr, of_cache<&CacheStats::misses>},
    {"shared_cache_full", Type::kCounter, "", "Samples read, and not kept: the cache is full.",
     nullptr, of_cache<&CacheStats::full>},
    {"shared_cache_filled_bytes", Type::kGauge, "bytes", "In use, by all processes.", nullptr,
     of_cache<&CacheStats::filled_bytes>},
    {"shared_cache_limit_bytes", Type::kGauge, "bytes", "That there is room for.", nullptr,
     of_cache<&CacheStats::limit_bytes>},
};

// From 16 us, below which no device answers, to 17 s: powers of two of nanoseconds, at which the
// histogram has an edge of its own, so that nothing is guessed.
constexpr std::size_t kFirstEdgeBit = 14;
constexpr std::size_t kEdgeCount = 21;
constexpr auto kEdges = [] {
  std::array<std::uint64_t, kEdgeCount> edges{};
  for (std::size_t i = 0; i < kEdgeCount; ++i) {
    edges.at(i) = (std::uint64_t{1} << (kFirstEdgeBit + i)) - 1;
  }
  return edges;
}();

constexpr const char* kPrefix = "feedrace_";

/// As the text format has label values.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out;
}

/// A label value must be UTF-8.
std::string label_value(std::string_view text) {
  return escaped(is_utf8(text) ? std::string(text) : printable(text));
}

double seconds_of(std::uint64_t ns) { return static_cast<double>(ns) * 1e-9; }

void put_latency(std::string& out, const std::string& name, const LatencyHistogram& latency) {
  auto to = std::back_inserter(out);
  for (const std::uint64_t edge_ns : kEdges) {
    fmt::format_to(to, "{}_bucket{{le=\"{:.6g}\"}} {}\n", name, seconds_of(edge_ns),
                   latency.count_up_to_ns(edge_ns));
  }
  fmt::format_to(to, "{}_bucket{{le=\"+Inf\"}} {}\n", name, latency.count());
  fmt::format_to(to, "{}_sum {}\n{}_count {}\n", name, seconds_of(latency.sum_ns()), name,
                 latency.count());
}

const char* type_name(Counter::Type type) {
  switch (type) {
    case Counter::Type::kCounter:
      return "counter";
    case Counter::Type::kGauge:
      return "gauge";
    case Counter::Type::kLatency:
      break;
  }
  return "histogram";
}

void put_counter(std::string& out, const Counter& counter, const Snapshot& snapshot) {
  const Values values = counter.read(snapshot);
  const bool is_latency = counter.type == Counter::Type::kLatency;
  if (values.empty() && !is_latency) return;
  const std::string name = std::string(kPrefix) + counter.name;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "# TYPE {} {}\n", name, type_name(counter.type));
  if (*counter.unit != '\0') fmt::format_to(to, "# UNIT {} {}\n", name, counter.unit);
  fmt::format_to(to, "# HELP {} {}\n", name, escaped(counter.help));
  if (is_latency) return put_latency(out, name, snapshot.stats.read_latency);
  const char* suffix = counter.type == Counter::Type::kCounter ? "_total" : "";
  for (const CounterValue& each : values) {
    const std::string label = counter.label == nullptr ? ""
                                                       : fmt::format("{{{}=\"{}\"}}", counter.label,
                                                                     label_value(each.member));
    fmt::format_to(to, "{}{}{} {}\n", name, suffix, label, each.value);
  }
}

}  // namespace

std::span<const Counter> counters() { return kCounters; }
std::span<const std::uint64_t> latency_edges_ns() { return kEdges; }

std::string openmetrics(const Snapshot& snapshot) {
  std::string out =
      "# TYPE feedrace_loader info\n# HELP feedrace_loader What is loaded, and how.\n";
  out += "feedrace_loader_info{";
  for (std::size_t i = 0; i < snapshot.facts.size(); ++i) {
    const auto& [name, value] = snapshot.facts[i];
    out += fmt::format("{}{}=\"{}\"", i == 0 ? "" : ",", name, label_value(value));
  }
  out += "} 1\n";
  for (const Counter& counter : kCounters) put_counter(out, counter, snapshot);
  return out + "# EOF\n";
}

nlohmann::ordered_json to_json(const Snapshot& snapshot) {
  nlohmann::ordered_json facts = nlohmann::ordered_json::object();
  for (const auto& [name, value] : snapshot.facts) put_text(facts, name, value);
  nlohmann::ordered_json values = nlohmann::ordered_json::object();
  for (const Counter& counter : kCounters) {
    if (counter.type == Counter::Type::kLatency) {
      values[counter.name] = to_json(snapshot.stats.read_latency);
      continue;
    }
    for (const CounterValue& each : counter.read(snapshot)) {
      if (counter.label == nullptr) {
        values[counter.name] = each.value;
      } else {
        values[counter.name][each.member] = each.value;
      }
    }
  }
  nlohmann::ordered_json fallbacks = nlohmann::ordered_json::array();
  for (const FallbackCount& each : snapshot.stats.fallbacks) {
    nlohmann::ordered_json one = {{"count", each.count}};
    put_text(one, "sentence", each.sentence);
    fallbacks.push_back(one);
  }
  nlohmann::ordered_json complaints = nlohmann::ordered_json::array();
  for (const std::string& each : snapshot.stats.complaints) complaints.push_back(printable(each));
  return {{"facts", facts},
          {"verdict", printable(snapshot.verdict)},
          {"counters", values},
          {"fallbacks", fallbacks},
          {"complaints", complaints}};
}

nlohmann::ordered_json to_json(const LatencyHistogram& latency) {
  auto buckets = nlohmann::ordered_json::array();
  for (const std::uint64_t edge_ns : kEdges) {
    buckets.push_back({seconds_of(edge_ns), latency.count_up_to_ns(edge_ns)});
  }
  return {{"count", latency.count()},
          {"sum", seconds_of(latency.sum_ns())},
          {"p50", seconds_of(latency.quantile_ns(0.5))},
          {"p99", seconds_of(latency.quantile_ns(0.99))},
          {"max", seconds_of(latency.max_ns())},
          {"buckets", buckets}};
}

nlohmann::json to_json(std::span<const SamplePlace> places) {
  auto list = nlohmann::json::array();
  for (const SamplePlace& each : places) {
    list.push_back({text_to_json(each.path), each.offset_bytes, each.size_bytes});
  }
  return list;
}

std::optional<std::vector<SamplePlace>> places_from_json(const nlohmann::json& value) {
  if (!value.is_array()) return std::nullopt;
  std::vector<SamplePlace> places;
  for (const nlohmann::json& each : value) {
    const bool is_place = each.is_array() && each.size() == 3 && each[1].is_number_unsigned() &&
                          each[2].is_number_unsigned();
    const auto path = is_place ? text_from_json(each[0]) : std::nullopt;
    if (!path) return std::nullopt;
    places.push_back({*path, each[1].get<std::uint64_t>(), each[2].get<std::uint64_t>()});
  }
  return places;
}

}  // namespace feedrace::watch
