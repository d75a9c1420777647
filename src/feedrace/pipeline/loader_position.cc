// SPDX-License-Identifier: Apache-2.0
// Where a loader stands: epoch and position, and states of them.

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/pipeline/loader_impl.h"
#include "feedrace/pipeline/resume.h"

namespace feedrace {

/// A rank that goes on from no state, or from an older one, would get other samples in silence.
void Loader::Impl::check_position() {
  check_ranks(
      fmt::format("first batch {}", ++position_checks_),
      {{"epoch of the next batch", fmt::format("{}", epoch())},
       {"position of the next batch", fmt::format("{}", epoch_order_->position_of(taken_))}});
  is_position_checked_ = true;
}

/// Makes the next batch the one at a position. Throws before anything has changed.
void Loader::Impl::begin_at(std::uint64_t epoch, std::uint64_t position) {
  order::EpochOrder begun(order_, sizing_.split, epoch, position);
  stop();
  epoch_order_.emplace(std::move(begun));
  epoch_ = epoch;
  taken_ = 0;
  bad_in_epoch_ = 0;
}

void Loader::Impl::set_epoch(std::uint64_t epoch) {
  // Also right after a state was loaded: trainers name the epoch that they go on with.
  const bool stands_there = epoch == epoch_ && taken_ == 0;
  if (!stands_there) begin_at(epoch, 0);
}

std::string Loader::Impl::state_text(std::uint64_t epoch, std::uint64_t position,
                                     std::uint64_t bad_samples) const {
  order::State state = pipeline::state_at(base_state_, *order_, epoch, position);
  if (state.epoch == epoch) state.bad_samples = bad_samples;
  return to_json(state);
}

std::string Loader::Impl::state() const {
  const std::uint64_t position =
      taken_ == 0 ? epoch_order_->position_of(0) : epoch_order_->position_behind(taken_ - 1);
  return state_text(epoch_, position, bad_in_epoch_);
}

std::string Loader::Impl::state_after(const Batch& batch) const {
  const std::uint64_t left = order_->epoch_samples() - batch.position;
  const bool is_last = order::make_split(sizing_.split, left).steps <= 1;
  const std::uint64_t position =
      is_last ? order_->epoch_samples() : batch.position + sizing_.split.global_batch();
  return state_text(batch.epoch, position, batch.epoch_bad_samples);
}

std::vector<std::string> Loader::Impl::load_state(std::string_view text, bool accept_changed_data) {
  const auto saved = order::parse_state(text);
  if (!saved) raise(saved.error());
  order::StateDifferences differences = compare(*saved, base_state_, accept_changed_data);
  if (!differences.errors.empty()) {
    std::vector<std::string> lines = std::move(differences.errors);
    for (const std::string& warning : dataset_->warnings()) lines.push_back(warning);
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the state does not fit this loader: {}", fmt::join(lines, "; ")));
  }
  const order::State::Origin origin = pipeline::is_mix_changed(*saved, base_state_)
                                          ? pipeline::origin_of_change(*saved, base_state_)
                                          : saved->origin;
  const auto order = pipeline::make_order(options_, opened_, origin);
  // Mixes by weight may have got shorter epochs.
  const std::uint64_t left =
      order->epoch_samples() - std::min(saved->position, order->epoch_samples());
  const bool has_batch = order::make_split(sizing_.split, left).steps > 0;
  if (!has_batch) {
    differences.notes.push_back(
        fmt::format("{} samples were left of epoch {}, fewer than a step of {}; goes on with epoch "
                    "{}",
                    left, saved->epoch, sizing_.split.global_batch(), saved->epoch + 1));
  }
  const std::uint64_t epoch = has_batch ? saved->epoch : saved->epoch + 1;
  const std::uint64_t position = has_batch ? saved->position : 0;
  const auto before = std::exchange(order_, order);
  try {
    begin_at(epoch, position);
  } catch (...) {
    order_ = before;
    throw;
  }
  parts_.reset();  // They hold the order.
  is_position_checked_ = false;
  if (has_batch) bad_in_epoch_ = saved->bad_samples;
  std::vector<std::string>& warnings = sizing_.plan.warnings;
  warnings.resize(planned_warnings_);  // Of the last state only.
  warnings.insert(warnings.end(), differences.notes.begin(), differences.notes.end());
  return differences.notes;
}

}  // namespace feedrace
