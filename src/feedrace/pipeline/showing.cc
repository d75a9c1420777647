// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/showing.h"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "feedrace/error.h"
#include "feedrace/watch/counters.h"

namespace feedrace::pipeline {
namespace {

// By so many, a share of the data set is told to within 9 % (two standard errors), and asking the
// kernel about them takes a millisecond.
constexpr std::uint64_t kSpreadSamples = 128;

watch::Answer not_found(const char* there) {
  return {404, "text/plain; charset=utf-8", std::string("not here; there is ") + there + "\n"};
}

}  // namespace

std::vector<watch::SamplePlace> spread_places(const formats::Dataset& dataset) {
  std::vector<watch::SamplePlace> places;
  const std::uint64_t size = dataset.size();
  const std::uint64_t count = std::min(size, kSpreadSamples);
  const std::uint64_t stride = count == 0 ? 0 : size / count;
  for (std::uint64_t i = 0; i < count; ++i) {
    const formats::Place place = dataset.place(i * stride);
    const bool has_size = place.size_bytes != formats::Place::kUnknownSize;
    places.push_back(
        {dataset.path(i * stride), place.offset_bytes, has_size ? place.size_bytes : 0});
  }
  return places;
}

Showing::Showing(const std::string& metrics, bool has_socket, Look look,
                 const formats::Dataset& dataset, storage::FallbackLog& fallbacks)
    : has_socket_(has_socket), look_(std::move(look)), dataset_(dataset), fallbacks_(fallbacks) {
  if (metrics.empty()) return;
  metrics_ = std::make_unique<watch::Server>(
      watch::listen_on(metrics), [this](std::string_view path) -> watch::Answer {
        if (path != "/metrics") return not_found("/metrics");
        return {200, watch::kOpenMetricsType, watch::openmetrics(look_())};
      });
}

void Showing::begin() {
  if (!has_socket_ || socket_) return;
  try {
    // NOLINTNEXTLINE(concurrency-mt-unsafe): read only.
    const std::string folder = watch::socket_folder(std::getenv("XDG_RUNTIME_DIR"));
    socket_ = std::make_unique<watch::Server>(
        watch::listen_in(folder), [this](std::string_view path) -> watch::Answer {
          if (path == "/places") {
            return {200, "application/json", watch::to_json(spread_places(dataset_)).dump() + "\n"};
          }
          if (path != "/stats") return not_found("/stats and /places");
          return {200, "application/json", watch::to_json(look_()).dump() + "\n"};
        });
  } catch (const Error& error) {
    fallbacks_.add(error.what());
  }
}

}  // namespace feedrace::pipeline
