// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace feedrace::view {

/// What came to a histogram between two tellings of it (`watch::to_json`): "count", and "buckets"
/// as there. Of nonsense, and of one that shrank, 0.
nlohmann::ordered_json latency_between(const nlohmann::json& before, const nlohmann::json& after);

/// "33 us ▂█▅▁ 1.0 ms": a column a bucket, as high as its share, from the lower edge of the first
/// that holds anything to the upper edge of the last. Empty where there is nothing.
std::string latency_columns(const nlohmann::json& latency);

/// "33 us", "1.0 ms", "17 ms", "2.1 s".
std::string duration_text(double seconds);

}  // namespace feedrace::view
