// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/host/host_load.h"
#include "feedrace/loader.h"
#include "feedrace/pipeline/stage_clock.h"
#include "feedrace/stats.h"
#include "feedrace/verdict/facts.h"

namespace feedrace::pipeline {

/// How waiting went over a run of any length, in bounded memory: stretches of time, of which two
/// neighbours become one when there are too many. One thread adds, with a lock around.
class WaitCourse {
 public:
  struct Stretch {
    double seconds = 0;
    double wait_seconds = 0;
    std::uint64_t samples = 0;
  };
  static constexpr std::size_t kMostStretches = 32;
  static constexpr double kFirstStretchSeconds = 0.05;

  /// A batch: how long it was waited for, how long the consumer kept itself busy before.
  void add(double wait_seconds, double busy_seconds, std::uint64_t samples);
  const std::vector<Stretch>& stretches() const noexcept { return stretches_; }

  struct Split {
    double early_seconds = 0;
    double early_wait_share = 0;
    double early_part = 0;  ///< Of all the time: waiting in the early one.
    double late_wait_share = 0;
    double late_images_per_second = 0;
  };
  /// Where waiting changes most, with at least a third of the time behind it; nothing in fewer than
  /// four stretches.
  std::optional<Split> split() const;

 private:
  std::vector<Stretch> stretches_;
  double stretch_seconds_ = kFirstStretchSeconds;
};

/// Sees a run through the consumer's eyes, and keeps what the counters were at some moments, so
/// that a verdict speaks of the last half of the run or more, and not of its start.
class RunWatch {
 public:
  /// `disks`: block devices that the samples lie on.
  explicit RunWatch(std::vector<std::string> disks) : disks_(std::move(disks)) {}

  /// The consumer got a batch. `stats` is asked now and then: behind the first batch, and each time
  /// that the run has become twice as long.
  template <typename MakeStats>
  void add(double wait_seconds, double hand_seconds, double busy_seconds, std::size_t ready,
           std::uint64_t samples, MakeStats&& stats) {
    last_batch_ = Clock::now();
    handing_in_next_ns_ += static_cast<std::uint64_t>(hand_seconds * 1e9);
    ready_ += ready;
    asked_ += 1;
    {
      std::lock_guard lock(mutex_);
      course_.add(wait_seconds + hand_seconds, busy_seconds, samples);
    }
    if (Clock::now() >= next_mark_) mark(stats());
  }

  /// While it lives the consumer waits in `next()`.
  class Waiting {
   public:
    explicit Waiting(RunWatch& watch) : watch_(watch) { watch_.is_waited_for_ = true; }
    ~Waiting() { watch_.is_waited_for_ = false; }
    Waiting(const Waiting&) = delete;
    Waiting& operator=(const Waiting&) = delete;

   private:
    RunWatch& watch_;
  };

  /// The consumer was told the end of an epoch. What it does until it asks again (validation, a
  /// checkpoint, nothing any more) is no part of the run.
  void leave(Stats stats);
  /// It asks again. `stats` is asked where it was away.
  template <typename MakeStats>
  void come_back(MakeStats&& stats) {
    if (left_with_) end_absence(stats());
  }

  /// Time outside of `next()` that goes into handing a batch over. Any thread.
  void note_handing(double seconds) noexcept {
    handing_ns_ += static_cast<std::uint64_t>(seconds * 1e9);
  }

  /// What the rules look at, between a mark and now.
  verdict::Facts facts(const Stats& now, const Plan& plan) const;

 private:
  /// The consumer's time between epochs, and what threads waited meanwhile, by stage.
  struct Absence {
    double seconds = 0;
    std::map<std::string, double> waits;
  };
  struct Mark {
    Stats stats;
    host::HostCounters host;
    double handing_in_next_seconds = 0;
    double handing_seconds = 0;  ///< Outside of it.
    std::uint64_t ready = 0;
    std::uint64_t asked = 0;
    Absence absence;
  };

  Mark make_mark(Stats stats) const;
  void end_absence(const Stats& stats);
  double seconds_since_last_batch() const;
  void mark(Stats stats);
  void fill_consumer(const Mark& before, const Mark& after, verdict::Facts& facts) const;
  void fill_reads(const Mark& before, const Mark& after, verdict::Facts& facts) const;

  const std::vector<std::string> disks_;
  std::atomic<std::uint64_t> handing_in_next_ns_ = 0;
  std::atomic<std::uint64_t> handing_ns_ = 0;
  std::atomic<std::uint64_t> ready_ = 0;
  std::atomic<std::uint64_t> asked_ = 0;
  Clock::time_point next_mark_;  // Of the consumer's thread, as these two.
  Clock::duration until_next_mark_{};
  std::atomic<Clock::time_point> last_batch_;
  std::atomic<bool> is_waited_for_ = false;
  std::optional<Stats> left_with_;  // Between epochs; of the consumer's thread, as is this.
  Clock::time_point left_at_;
  mutable std::mutex mutex_;
  Absence absence_;
  WaitCourse course_;           // Guarded by mutex_, as all below.
  std::optional<Mark> before_;  // The facts begin here.
  std::optional<Mark> latest_;  // Takes its place when the run is twice as long.
};

}  // namespace feedrace::pipeline
