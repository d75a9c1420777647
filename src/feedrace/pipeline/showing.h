// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "feedrace/format.h"
#include "feedrace/storage/fallback_log.h"
#include "feedrace/watch/server.h"
#include "feedrace/watch/snapshot.h"

namespace feedrace::pipeline {

/// Some samples, evenly spread over the data set: at most 128. Any thread.
std::vector<watch::SamplePlace> spread_places(const formats::Dataset& dataset);

/// How a loader shows itself to others while it lives: metrics on a port, where they are asked for,
/// and a socket of this user's for `feedrace top`. A thread each. Its owner's thread.
class Showing {
 public:
  /// Called on the servers' threads.
  using Look = std::function<watch::Snapshot()>;

  /// Serves metrics from now on, on `metrics` ("[ADDRESS:]PORT"; empty: nowhere). Throws Error:
  /// what `watch::listen_on` throws. `dataset` and `fallbacks` outlive it.
  Showing(const std::string& metrics, bool has_socket, Look look, const formats::Dataset& dataset,
          storage::FallbackLog& fallbacks);

  /// Opens the socket. A loader that can't have one goes on without: counted.
  void begin();
  /// Closes it, until the next `begin`.
  void rest() noexcept { socket_.reset(); }

  /// "127.0.0.1:9400"; empty: no metrics are served.
  std::string metrics_address() const { return metrics_ ? metrics_->address() : std::string(); }

 private:
  const bool has_socket_;
  const Look look_;
  const formats::Dataset& dataset_;
  storage::FallbackLog& fallbacks_;
  std::unique_ptr<watch::Server> metrics_;
  std::unique_ptr<watch::Server> socket_;
};

}  // namespace feedrace::pipeline
