// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace feedrace::tools {

/// One line on a terminal's standard error that is drawn over: how much, how fast, how long yet.
/// Draws nothing when standard error is not a terminal. Not thread-safe.
class Progress {
 public:
  /// `total` 0: not known.
  Progress(std::string what, std::uint64_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` of `total`; draws ten times a second at most.
  void update(std::uint64_t done);
  /// The share that is done when it is not a count that ends the work but time; in [0, 1].
  void update(std::uint64_t done, double share);

 private:
  using Clock = std::chrono::steady_clock;

  const std::string what_;
  const std::uint64_t total_;
  const bool is_terminal_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point drawn_;
  bool has_drawn_ = false;
};

}  // namespace feedrace::tools
