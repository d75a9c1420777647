// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/latency.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

namespace feedrace::view {
namespace {

constexpr std::array<const char*, 9> kLevels = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

/// A bucket of what `watch::to_json` tells; there, counts include all buckets before.
struct Bucket {
  double upper_seconds = 0;
  double count_below = 0;
};

std::vector<Bucket> buckets_of(const nlohmann::json& latency) {
  std::vector<Bucket> buckets;
  if (!latency.is_object()) return buckets;
  const auto told = latency.find("buckets");
  if (told == latency.end() || !told->is_array()) return buckets;
  for (const nlohmann::json& each : *told) {
    const bool is_bucket =
        each.is_array() && each.size() == 2 && each[0].is_number() && each[1].is_number();
    if (is_bucket) buckets.push_back({each[0].get<double>(), each[1].get<double>()});
  }
  return buckets;
}

double count_of(const nlohmann::json& latency) {
  if (!latency.is_object()) return 0;
  const auto count = latency.find("count");
  return count != latency.end() && count->is_number() ? count->get<double>() : 0;
}

}  // namespace

nlohmann::ordered_json latency_between(const nlohmann::json& before, const nlohmann::json& after) {
  const std::vector<Bucket> early = buckets_of(before);
  const std::vector<Bucket> late = buckets_of(after);
  auto buckets = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < late.size(); ++i) {
    const double base = early.size() == late.size() ? early[i].count_below : 0;
    buckets.push_back({late[i].upper_seconds, std::max(0.0, late[i].count_below - base)});
  }
  const double base = early.size() == late.size() ? count_of(before) : 0;
  return {{"count", std::max(0.0, count_of(after) - base)}, {"buckets", buckets}};
}

std::string latency_columns(const nlohmann::json& latency) {
  const std::vector<Bucket> buckets = buckets_of(latency);
  std::vector<double> counts;
  double below = 0;
  for (const Bucket& each : buckets) {
    counts.push_back(std::max(0.0, each.count_below - below));
    below = each.count_below;
  }
  const auto holds = [](double count) { return count > 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), holds);
  if (first == counts.end()) return {};
  const auto end = std::find_if(counts.rbegin(), counts.rend(), holds).base();
  const double highest = *std::max_element(first, end);
  std::string columns;
  for (auto at = first; at != end; ++at) {
    columns += kLevels.at(static_cast<std::size_t>(std::ceil(*at / highest * 8)));
  }
  const auto begin_index = static_cast<std::size_t>(first - counts.begin());
  const double lower = begin_index == 0 ? 0 : buckets[begin_index - 1].upper_seconds;
  const double upper = buckets[static_cast<std::size_t>(end - counts.begin()) - 1].upper_seconds;
  return fmt::format("{} {} {}", duration_text(lower), columns, duration_text(upper));
}

std::string duration_text(double seconds) {
  if (seconds < 1e-3) return fmt::format("{:.0f} us", seconds * 1e6);
  if (seconds < 1e-2) return fmt::format("{:.1f} ms", seconds * 1e3);
  if (seconds < 1) return fmt::format("{:.0f} ms", seconds * 1e3);
  return fmt::format("{:.1f} s", seconds);
}

}  // namespace feedrace::view
