// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "feedrace/loader.h"
#include "feedrace/tools/batch_digest.h"

namespace feedrace::tools {

/// A stretch of an epoch's steps as some number of ranks loads it, from the state before it.
struct RehearsedStretch {
  std::uint64_t begin = 0;  ///< Steps [begin, end).
  std::uint64_t end = 0;
  std::uint64_t world_size = 1;
  std::size_t thread_count = 1;
  std::size_t prefetch_factor = 1;
  std::string backend;  ///< As in `LoaderOptions`.
};

/// "steps 0-11 on 3 ranks, 2 threads, prefetch 1, buffered; then ...".
std::string to_text(const std::vector<RehearsedStretch>& schedule);

/// Where a run that was stopped on the way gave something else than the unbroken one.
struct RehearsalDifference {
  std::uint64_t run = 0;
  std::uint64_t position = 0;
  std::optional<PlaceDigest> expected;  ///< Nothing: the unbroken run has no such position.
  std::optional<PlaceDigest> found;     ///< Nothing: it never came.
  std::string problem;                  ///< One sentence.
  std::vector<RehearsedStretch> schedule;
};

/// Loads a stretch of an epoch without a break, then again and again with stops, other numbers of
/// ranks, threads and batches ahead, and other back ends, the state handed on as text; compares
/// every place but padding, byte for byte. All in this process: ranks come one after another.
class Rehearsal {
 public:
  struct Hooks {
    /// Called with each loader before it starts, and with null when it is gone.
    std::function<void(Loader*)> watch = [](Loader*) {};
    /// Called after each batch.
    std::function<void()> step = [] {};
  };

  /// Loads the first `steps` steps of the epoch unbroken, or all of it where it has fewer or
  /// `steps` is 0. A step is the global batch of the options. Throws Error: what opening and
  /// loading throw.
  Rehearsal(LoaderOptions options, std::uint64_t epoch, std::uint64_t steps, Hooks hooks);

  /// One run with stops. The same seed gives the same schedule, for the same global batch and
  /// steps. True when all came as in the unbroken run; else `difference()` says where it did not.
  bool run(std::uint64_t number, std::uint64_t seed);

  const Plan& plan() const noexcept { return plan_; }  ///< Of the options as given.
  const formats::Dataset& dataset() const noexcept { return *dataset_; }
  std::uint64_t epoch() const noexcept { return epoch_; }
  std::uint64_t steps() const noexcept { return steps_; }
  std::uint64_t global_batch() const noexcept { return global_batch_; }
  std::uint64_t places() const noexcept { return expected_.size(); }
  std::uint64_t batches() const noexcept { return batches_; }  ///< Of all runs and ranks.
  std::uint64_t stops() const noexcept { return stops_; }
  const std::set<std::string>& backends() const noexcept { return backends_; }
  const std::optional<RehearsalDifference>& difference() const noexcept { return difference_; }

 private:
  class Watched;

  std::vector<RehearsedStretch> make_schedule(std::uint64_t seed) const;
  LoaderOptions options_of(const RehearsedStretch& stretch, std::uint64_t rank) const;
  void load_unbroken();
  bool load_stretch(const RehearsedStretch& stretch, std::string& state,
                    std::vector<bool>& has_come);
  bool compare(std::uint64_t first, const std::vector<PlaceDigest>& found,
               std::vector<bool>& has_come);
  bool differs(std::uint64_t position, std::optional<PlaceDigest> found, std::string problem);

  LoaderOptions options_;
  Plan plan_;
  std::shared_ptr<const formats::Dataset> dataset_;
  Hooks hooks_;
  std::uint64_t epoch_;
  std::uint64_t steps_;
  std::uint64_t global_batch_ = 0;
  std::vector<PlaceDigest> expected_;  // By position.
  std::uint64_t batches_ = 0;
  std::uint64_t stops_ = 0;
  std::set<std::string> backends_;
  std::optional<RehearsalDifference> difference_;
};

}  // namespace feedrace::tools
