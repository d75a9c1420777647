// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/pass_order.h"

#include <algorithm>

namespace feedrace::order {
namespace {

// Numbers of the draws, apart from those of ops. They are part of what a seed means.
constexpr std::uint32_t kChunkStream = 0x6368756e;
constexpr std::uint32_t kWindowStream = 0x77696e64;

}  // namespace

PassOrder::PassOrder(const ShuffleOptions& options, std::uint64_t n, std::uint32_t set,
                     std::uint64_t pass)
    : n_(n), pass_(pass) {
  if (options.shuffle == Shuffle::kGlobal) {
    order_.emplace(n, options.seed, pass, Permutation::kOrderStream + set);
  } else if (options.shuffle == Shuffle::kWindow) {
    chunk_samples_ = options.chunk_samples;
    const std::uint64_t chunks =
        std::max<std::uint64_t>(1, options.window_samples / chunk_samples_);
    window_samples_ = chunks * chunk_samples_;
    const std::uint64_t chunk_count = (n - 1) / chunk_samples_ + 1;
    tail_samples_ = n - (chunk_count - 1) * chunk_samples_;
    order_.emplace(chunk_count, options.seed, pass, kChunkStream + set);
    tail_slot_ = order_->inverse(chunk_count - 1);
    window_.emplace(n, options.seed, pass, kWindowStream + set);
  }
}

std::uint64_t PassOrder::operator()(std::uint64_t place) const noexcept {
  if (window_) return in_chunk(in_window(place));
  return order_ ? (*order_)(place) : place;
}

/// Mixes the places of a window among themselves.
std::uint64_t PassOrder::in_window(std::uint64_t place) const noexcept {
  const std::uint64_t window = place / window_samples_;
  const std::uint64_t begin = window * window_samples_;
  const std::uint64_t size = std::min(window_samples_, n_ - begin);
  return begin + window_->tweaked(size, window)(place - begin);
}

/// The member at a place of the walk from chunk to chunk, one of which may be shorter.
std::uint64_t PassOrder::in_chunk(std::uint64_t place) const noexcept {
  const std::uint64_t tail_begin = tail_slot_ * chunk_samples_;
  std::uint64_t slot = tail_slot_;
  std::uint64_t offset = place - tail_begin;
  if (place < tail_begin) {
    slot = place / chunk_samples_;
    offset = place % chunk_samples_;
  } else if (place >= tail_begin + tail_samples_) {
    slot = (place - tail_samples_) / chunk_samples_ + 1;
    offset = (place - tail_samples_) % chunk_samples_;
  }
  return (*order_)(slot)*chunk_samples_ + offset;
}

}  // namespace feedrace::order
