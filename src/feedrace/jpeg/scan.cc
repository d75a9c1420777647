// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/scan.h"

#include <algorithm>
#include <limits>

namespace feedrace::jpeg {
namespace {

constexpr unsigned kFirstRestart = 0xd0;
constexpr unsigned kEndOfImage = 0xd9;

/// Far above what pictures have (2,047 x 8), and so far below the limits of 32 bits that the blocks
/// of one more window, each of at least 17 bits if it changes the level by 2^15, can not reach
/// them.
constexpr std::int32_t kMaxDc = 1 << 24;

}  // namespace

bool Scan::start(std::span<const std::byte> encoded, const Frame& frame, TableCache& tables) {
  std::size_t count = 0;
  for (std::uint32_t i = 0; i < frame.component_count; ++i) {
    const Component& component = frame.components[i];
    McuBlock block;
    block.dc = tables.dc(frame.dc[component.dc_table]);
    block.ac = tables.ac(frame.ac[component.ac_table]);
    block.component = i;
    if (block.dc == nullptr || block.ac == nullptr) return false;
    for (std::uint32_t k = 0; k < component.across * component.down; ++k) blocks_[count++] = block;
  }
  run_ = {};
  run_.blocks = std::span(blocks_).first(count);
  encoded_ = encoded;
  interval_ = frame.restart_interval;
  start_at({frame.scan_at, 0, {}, 0});
  return true;
}

void Scan::start_at(const ScanPlace& place) {
  run_.dc = place.dc;
  run_.is_damaged = false;
  next_mcu_ = place.mcu;
  until_restart_ = std::numeric_limits<std::size_t>::max();
  next_restart_ = 0;
  if (interval_ != 0) {
    // Of the MCU in front: the first one of an interval has its marker still before it.
    const std::size_t last = place.mcu == 0 ? 0 : place.mcu - 1;
    const std::size_t done = place.mcu - last / interval_ * interval_;
    until_restart_ = interval_ - done;
    next_restart_ = static_cast<unsigned>(last / interval_ % 8);
  }
  bytes_.start(encoded_, place.at, place.skipped_bits, cursor_);
}

ScanPlace Scan::place() {
  const ScanBytes::Place place = bytes_.place(cursor_);
  return {place.at, place.skipped_bits, run_.dc, next_mcu_};
}

bool Scan::decode(std::size_t mcu_count) { return read(mcu_count, kernels_->decode_mcus); }
bool Scan::walk(std::size_t mcu_count) { return read(mcu_count, kernels_->walk_mcus); }

bool Scan::read(std::size_t mcu_count, Read read_mcus) {
  next_mcu_ += mcu_count;
  while (mcu_count > 0) {
    if (until_restart_ == 0 && !restart()) return false;
    const std::size_t part = std::min(mcu_count, until_restart_);
    run_.count = part;
    for (;;) {
      read_mcus(cursor_, bytes_.limit(), run_);
      // After each window: within one no sum of differences leaves 32 bits.
      if (run_.is_damaged || has_wild_level()) return false;
      if (run_.count == 0) break;
      if (!bytes_.advance(cursor_)) return false;
    }
    mcu_count -= part;
    if (interval_ != 0) until_restart_ -= part;
  }
  return !bytes_.is_overrun(cursor_);
}

bool Scan::has_wild_level() const {
  return std::any_of(run_.dc.begin(), run_.dc.end(),
                     [](std::int32_t dc) { return dc > kMaxDc || dc < -kMaxDc; });
}

bool Scan::skip_to(std::size_t mcu) {
  if (mcu == next_mcu_) return true;
  if (interval_ != 0) {
    // An interval that was read to its end has nothing left in front of its marker.
    if (until_restart_ == 0 && !restart()) return false;
    const std::size_t passed = (next_mcu_ - (interval_ - until_restart_)) / interval_;
    const std::size_t count = mcu / interval_ - passed;
    if (count > 0) {
      if (!bytes_.pass_restarts(count, next_restart_, cursor_)) return false;
      next_restart_ = static_cast<unsigned>((next_restart_ + count) % 8);
      until_restart_ = interval_;
      next_mcu_ = (passed + count) * interval_;
      run_.dc = {};
    }
  }
  return walk(mcu - next_mcu_);
}

bool Scan::restart() {
  if (!bytes_.is_finished(cursor_) || bytes_.marker() != kFirstRestart + next_restart_) {
    return false;
  }
  bytes_.pass_marker(cursor_);
  next_restart_ = (next_restart_ + 1) % 8;
  until_restart_ = interval_;
  run_.dc = {};
  return true;
}

bool Scan::is_finished() { return bytes_.is_finished(cursor_) && bytes_.marker() == kEndOfImage; }

}  // namespace feedrace::jpeg
