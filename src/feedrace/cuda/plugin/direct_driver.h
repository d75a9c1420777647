// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "feedrace/cuda/plugin/direct_library.h"
#include "feedrace/cuda/plugin/handles.h"

namespace feedrace::cuda_plugin {

/// A parameter of cuFile that was to be set, and what came.
struct DirectSetting {
  std::string name;
  std::size_t value;
  std::string refused;  ///< Empty: taken.
};

/// Reads go together, a probe goes alone: the statistics are the process's, so nothing else may
/// read while they are compared. (Reads on a stream come when they come; those are not held back.)
class ReadGate {
 public:
  std::shared_lock<std::shared_mutex> together() {
    {
      const std::lock_guard behind_who_waits(turn_);
    }  // Or reads without end would starve a probe.
    return std::shared_lock(reads_);
  }
  std::unique_lock<std::shared_mutex> alone() {
    const std::lock_guard next(turn_);
    return std::unique_lock(reads_);
  }

 private:
  std::mutex turn_;
  std::shared_mutex reads_;
};

/// What cuFile itself keeps once a process: it is started once, with one set of parameters.
struct DirectDriver {
  std::mutex mutex;
  int users = 0;         ///< Guarded by mutex.
  bool is_ours = false;  ///< Guarded by mutex. False: another part of the process started it.
  std::vector<DirectSetting> settings;  ///< Guarded by mutex.
  ReadGate reads;
};

/// cuFile, started for as long as this lives: the last to go stops it.
class DirectLease {
 public:
  /// Starts it unless that is done; then the parameters are those of whoever came first.
  DirectLease(const Driver& driver, const CuFile& cufile,
              const feedrace_cuda_direct_options& options);
  ~DirectLease();
  DirectLease(const DirectLease&) = delete;
  DirectLease& operator=(const DirectLease&) = delete;

  ReadGate& reads() noexcept { return state_.reads; }
  bool is_ours();
  std::vector<DirectSetting> settings();

 private:
  const CuFile& cufile_;
  DirectDriver& state_;
};

/// Whether cuFile may copy through the host, as it says itself; true when it does not say.
bool allows_compatible(const CuFile& cufile);
/// All parameters that cuFile tells, as JSON. Only while a lease lives: before the start it tells
/// zeros.
std::string direct_parameters(const CuFile& cufile);

}  // namespace feedrace::cuda_plugin
