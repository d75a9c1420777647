// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/lookahead.h"

#include <algorithm>
#include <utility>

namespace feedrace::pipeline {

Lookahead::Lookahead(const formats::Dataset& dataset, Assembly& assembly, Options options,
                     Noticed noticed)
    : dataset_(dataset),
      assembly_(assembly),
      options_(std::move(options)),
      noticed_(std::move(noticed)) {
  ahead_.order = std::make_shared<order::EpochOrder>(options_.order, options_.split,
                                                     options_.first_epoch, options_.first_position);
  open_ = ahead_;
}

void Lookahead::advance(Cursor& cursor) const {
  ++cursor.serial;
  if (++cursor.number < cursor.order->split().steps) return;
  cursor.order = std::make_shared<order::EpochOrder>(options_.order, options_.split,
                                                     cursor.order->epoch() + 1);
  cursor.number = 0;
}

void Lookahead::look_ahead() {
  // A reader of few samples among many must not walk an epoch in one go, nor run away from the
  // batches that others open.
  constexpr std::size_t kMaxSteps = 65'536;
  const std::uint64_t end = due_end_ + std::max<std::size_t>(1, options_.horizon);
  for (std::size_t step = 0; first_ticket_ + seats_.size() < end; ++step) {
    if (step >= kMaxSteps && has_next()) return;
    if (options_.is_mine && !has_next() && ahead_.serial > assembly_.opened_count()) return;
    const order::Pick pick = ahead_.order->pick(ahead_.number, ahead_index_);
    const std::size_t index = ahead_index_;
    const std::uint64_t serial = ahead_.serial;
    if (++ahead_index_ == ahead_.order->batch_size(ahead_.number)) {
      ahead_index_ = 0;
      advance(ahead_);
    }
    if (options_.is_mine && !options_.is_mine(pick.sample)) continue;
    auto seat = std::make_unique<Seat>();
    seat->ticket = first_ticket_ + seats_.size();
    seat->serial = serial;
    seat->index = index;
    seat->pick = pick;
    seat->place = dataset_.place(pick.sample);
    seats_.push_back(std::move(seat));
    noticed_(*seats_.back());
  }
}

/// Batches are opened one after another, by whichever reader comes first.
Assembly::Opened Lookahead::open_batch(std::uint64_t serial, const std::stop_token& stop,
                                       bool may_wait) {
  Assembly::Opened opened{Assembly::Opened::Status::kOpen, batch_};
  while (open_.serial <= serial) {
    opened = may_wait ? assembly_.open(open_.serial, open_.order, open_.number, stop)
                      : assembly_.try_open(open_.serial, open_.order, open_.number);
    if (opened.status == Assembly::Opened::Status::kNoRoom) return opened;
    batch_ = opened.batch;
    batch_serial_ = open_.serial;
    advance(open_);
  }
  return opened;
}

Seat* Lookahead::next_due(const std::stop_token& stop, bool may_wait) {
  look_ahead();
  if (!has_next()) {
    // `look_ahead` goes on with a batch once the one before it is open.
    if (may_wait) assembly_.await_opened(ahead_.serial - 1, stop);
    return nullptr;
  }
  Seat& next = seat(due_end_);
  if (batch_serial_ != next.serial) {
    const auto opened = open_batch(next.serial, stop, may_wait);
    if (opened.status != Assembly::Opened::Status::kOpen) return nullptr;
  }
  next.batch = batch_;
  ++due_end_;
  return &next;
}

void Lookahead::finish(std::uint64_t ticket) {
  seats_[static_cast<std::size_t>(ticket - first_ticket_)].reset();
  while (!seats_.empty() && !seats_.front()) {
    seats_.pop_front();
    ++first_ticket_;
  }
}

}  // namespace feedrace::pipeline
