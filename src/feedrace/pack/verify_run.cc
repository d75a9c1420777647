// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/verify_run.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <system_error>

namespace feedrace::pack {
namespace {

constexpr std::chrono::milliseconds kProgressEvery{100};
constexpr std::size_t kUnitsAheadPerThread = 4;

}  // namespace

VerifyRun::VerifyRun(VerifyPlan plan, std::size_t thread_count, decode::DecodeLimits limits)
    : plan_(std::move(plan)),
      thread_count_(thread_count),
      limits_(limits),
      units_(plan_.unit_weights.size()) {
  total_weight_ = std::accumulate(plan_.unit_weights.begin(), plan_.unit_weights.end(), 0.0);
}

VerifyTotals VerifyRun::run(const std::function<void(std::uint64_t, double)>& progress) {
  std::vector<std::unique_ptr<VerifyThread>> parts;
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < thread_count_; ++i) {
      auto part = std::make_unique<VerifyThread>(limits_);
      VerifyThread& own = *part;
      parts.push_back(std::move(part));
      {
        const Lock lock(mutex_);
        ++working_count_;
      }
      try {
        threads.emplace_back([this, &own] { work(own); });
      } catch (const std::system_error&) {
        const Lock lock(mutex_);
        --working_count_;
        // No more threads to be had: those that there are do all of it.
        if (threads.empty()) fail(std::current_exception());
        break;
      }
    }
    watch(progress);
  }
  const Lock lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
  VerifyTotals totals;
  for (const auto& part : parts) totals.merge(part->totals);
  return totals;
}

/// Waits for the threads; a failure of the caller's function ends them.
void VerifyRun::watch(const std::function<void(std::uint64_t, double)>& progress) {
  Lock lock(mutex_);
  while (working_count_ > 0) {
    changed_.wait_for(lock, kProgressEvery, [this] { return working_count_ == 0; });
    if (!progress || failure_) continue;
    const std::uint64_t samples = samples_done_;
    const double share = total_weight_ > 0 ? std::min(1.0, weight_done_ / total_weight_) : 1;
    lock.unlock();
    std::exception_ptr thrown;
    try {
      progress(samples, share);
    } catch (...) {
      thrown = std::current_exception();
    }
    lock.lock();
    if (thrown) fail(thrown);
  }
}

void VerifyRun::fail(std::exception_ptr failure) {
  if (!failure_) failure_ = std::move(failure);
  changed_.notify_all();
}

void VerifyRun::work(VerifyThread& thread) noexcept {
  // One slow shard must not make the others' findings pile up behind it.
  const std::size_t units_ahead = kUnitsAheadPerThread * thread_count_;
  Lock lock(mutex_);
  try {
    while (!failure_) {
      if (!waiting_.empty()) {
        check_next(lock, thread);
      } else if (next_unit_ < std::min(units_.size(), next_taken_ + units_ahead)) {
        open_next(lock, thread);
      } else if (next_unit_ < units_.size() || opening_count_ > 0) {
        changed_.wait(lock);  // For the pieces of what is being opened, or for room.
      } else {
        break;
      }
    }
  } catch (...) {
    if (!lock.owns_lock()) lock.lock();
    fail(std::current_exception());
  }
  --working_count_;
  changed_.notify_all();
}

void VerifyRun::open_next(Lock& lock, VerifyThread& thread) {
  const std::size_t number = next_unit_++;
  ++opening_count_;
  lock.unlock();
  auto state = std::make_unique<UnitState>();
  state->opened = plan_.open(number, thread);
  state->pieces_left = state->opened.unit ? state->opened.unit->piece_count() : 0;
  state->pieces.resize(state->pieces_left);
  lock.lock();
  --opening_count_;
  state->is_done = state->pieces_left == 0;
  if (state->is_done) weight_done_ += plan_.unit_weights[number];
  for (std::size_t i = 0; i < state->pieces_left; ++i) waiting_.push_back({number, i});
  units_[number] = std::move(state);
  changed_.notify_all();
  hand_on(lock);
}

void VerifyRun::check_next(Lock& lock, VerifyThread& thread) {
  const Piece piece = waiting_.front();
  waiting_.pop_front();
  UnitState& state = *units_[piece.unit];
  lock.unlock();
  PieceFindings findings;
  state.opened.unit->check(piece.number, thread, findings);
  lock.lock();
  samples_done_ += state.opened.unit->samples_of_piece(piece.number);
  weight_done_ += plan_.unit_weights[piece.unit] / static_cast<double>(state.pieces.size());
  state.pieces[piece.number] = std::move(findings);
  state.is_done = --state.pieces_left == 0;
  hand_on(lock);
}

/// Gives on what is done and whose turn it is. One thread at a time; it takes what the others
/// finish meanwhile.
void VerifyRun::hand_on(Lock& lock) {
  if (is_taking_) return;
  is_taking_ = true;
  while (!failure_ && next_taken_ < units_.size() && units_[next_taken_] &&
         units_[next_taken_]->is_done) {
    const std::size_t number = next_taken_++;
    const std::unique_ptr<UnitState> state = std::move(units_[number]);
    lock.unlock();
    plan_.take(number, state->opened, state->pieces);
    lock.lock();
    changed_.notify_all();
  }
  is_taking_ = false;
}

}  // namespace feedrace::pack
