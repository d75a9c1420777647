// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "feedrace/pack/bad_list.h"
#include "feedrace/pack/picture_check.h"
#include "feedrace/pack/verify_totals.h"

namespace feedrace::pack {

/// One thing that was found; those of a kind are counted together.
struct Found {
  std::string check;
  bool is_bad = false;
  std::string what;
  std::uint64_t count = 1;
  std::vector<std::string> examples;
};

/// What a piece of the set gave, in the order in which it lies there.
struct PieceFindings {
  std::vector<Found> found;
  /// With `sample` counted from the unit's first one.
  std::vector<BadSample> bad;
};

/// What one thread has for itself.
struct VerifyThread {
  explicit VerifyThread(const decode::DecodeLimits& limits) : pictures(limits) {}

  PictureCheck pictures;
  VerifyTotals totals;
};

/// A stretch of the set, a shard for instance, that is opened at once and checked in pieces, by
/// several threads at a time.
class VerifyUnit {
 public:
  virtual ~VerifyUnit() = default;
  virtual std::size_t piece_count() const noexcept = 0;
  virtual std::uint64_t samples_of_piece(std::size_t piece) const noexcept = 0;
  virtual void check(std::size_t piece, VerifyThread& thread, PieceFindings& findings) const = 0;
};

/// A unit that was opened, and what that gave; none where it could not be.
struct OpenedUnit {
  std::unique_ptr<const VerifyUnit> unit;
  PieceFindings findings;
  std::uint64_t picture_count = 0;        ///< Samples that are numbered.
  std::vector<std::uint64_t> key_hashes;  ///< A sample each.
};

/// How a set is taken apart.
struct VerifyPlan {
  std::vector<double> unit_weights;  ///< For the progress: bytes or samples, one value a unit.
  /// Called from several threads, once a unit.
  std::function<OpenedUnit(std::size_t unit, VerifyThread& thread)> open;
  /// What a whole unit gave, unit by unit in order; calls do not overlap.
  std::function<void(std::size_t unit, OpenedUnit& opened, std::vector<PieceFindings>& pieces)>
      take;
};

/// Opens and checks all units on several threads. Few are open at a time: a unit is opened only
/// when no piece of another waits.
class VerifyRun {
 public:
  VerifyRun(VerifyPlan plan, std::size_t thread_count, decode::DecodeLimits limits);

  /// Rethrows what a thread or `progress` threw, after all threads have ended. Returns the totals
  /// of all threads.
  VerifyTotals run(const std::function<void(std::uint64_t, double)>& progress);

 private:
  struct UnitState {
    OpenedUnit opened;
    std::vector<PieceFindings> pieces;
    std::size_t pieces_left = 0;
    bool is_done = false;
  };
  struct Piece {
    std::size_t unit = 0;
    std::size_t number = 0;
  };
  using Lock = std::unique_lock<std::mutex>;

  void work(VerifyThread& thread) noexcept;
  void open_next(Lock& lock, VerifyThread& thread);
  void check_next(Lock& lock, VerifyThread& thread);
  void hand_on(Lock& lock);
  void fail(std::exception_ptr failure);
  void watch(const std::function<void(std::uint64_t, double)>& progress);

  const VerifyPlan plan_;
  const std::size_t thread_count_;
  const decode::DecodeLimits limits_;
  double total_weight_ = 0;

  std::mutex mutex_;
  std::condition_variable changed_;
  // All below guarded by mutex_.
  std::vector<std::unique_ptr<UnitState>> units_;  // Null before and after its time.
  std::deque<Piece> waiting_;
  std::size_t next_unit_ = 0;
  std::size_t opening_count_ = 0;
  std::size_t next_taken_ = 0;
  bool is_taking_ = false;
  std::size_t working_count_ = 0;
  std::uint64_t samples_done_ = 0;
  double weight_done_ = 0;
  std::exception_ptr failure_;
};

}  // namespace feedrace::pack
