// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/set_walk.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"

namespace feedrace::order {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr double kShareScale = 4294967296.0;  // 2^32
constexpr std::uint64_t kMaxSamples = std::uint64_t{1} << 62;

/// Of `turns` turns those that fall to a share of `sum`: rounded down.
std::uint64_t part_of(std::uint64_t turns, std::uint64_t share, std::uint64_t sum) noexcept {
  return static_cast<std::uint64_t>(static_cast<Wide>(turns) * share / sum);
}

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void check_sets(const std::vector<WalkedSet>& sets) {
  if (sets.empty()) refuse("no data set is given");
  const bool is_weighted = sets.front().weight != 0;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const WalkedSet& set = sets[i];
    if (set.member_count == 0) {
      refuse(fmt::format("set {} has 0 samples; nothing can be loaded from it", i));
    }
    if (!std::isfinite(set.weight) || set.weight < 0) {
      refuse(
          fmt::format("the weight of set {} is {}; it must be above 0 and finite", i, set.weight));
    }
    if ((set.weight != 0) != is_weighted) {
      refuse(
          fmt::format("set {} has {} weight and set 0 has {}; give all sets a weight above 0 to "
                      "mix them, or none to have them one after another",
                      i, is_weighted ? "no" : "a", is_weighted ? "one" : "none"));
    }
    if (set.repeat == 0 || (is_weighted && set.repeat != 1)) {
      refuse(fmt::format(
          "repeat of set {} is {}; it must be {}", i, set.repeat,
          is_weighted ? "1 beside a weight, which says how often samples come" : "at least 1"));
    }
  }
}

std::uint64_t sum_of(const std::vector<WalkedSet>& sets) {
  Wide sum = 0;
  for (const WalkedSet& set : sets) sum += static_cast<Wide>(set.member_count) * set.repeat;
  // One set alone may have up to 2^63 samples: its positions are never multiplied.
  const Wide most = sets.size() == 1 && sets[0].repeat == 1 ? Wide{1} << 63 : Wide{kMaxSamples};
  if (sum > most) refuse("an epoch has more than 2^62 samples; use a smaller repeat or subset");
  return static_cast<std::uint64_t>(sum);
}

std::vector<std::uint64_t> shares_of(const std::vector<WalkedSet>& sets) {
  double sum = 0;
  for (const WalkedSet& set : sets) sum += set.weight;
  if (!std::isfinite(sum))
    refuse("the weights add up to more than a double holds; scale them down");
  std::vector<std::uint64_t> shares;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const double share = std::round(sets[i].weight / sum * kShareScale);
    if (!(share >= 1)) {
      refuse(
          fmt::format("the weight of set {} is {} of a sum of {}; below 1e-9 of it no sample "
                      "would come: leave the set out or raise its weight",
                      i, sets[i].weight, sum));
    }
    shares.push_back(static_cast<std::uint64_t>(share));
  }
  return shares;
}

}  // namespace

SetWalk::SetWalk(std::vector<WalkedSet> sets, std::uint64_t epoch_samples, State::Origin origin)
    : sets_(std::move(sets)), origin_(std::move(origin)) {
  check_sets(sets_);
  epoch_samples_ = sum_of(sets_);
  if (sets_.front().weight != 0) {
    shares_ = shares_of(sets_);
    for (const std::uint64_t share : shares_) share_sum_ += share;
    if (epoch_samples != 0) epoch_samples_ = epoch_samples;
    if (epoch_samples_ > kMaxSamples) refuse("epoch_samples is above 2^62; use fewer");
    if (origin_.set_positions.empty()) origin_.set_positions.assign(sets_.size(), 0);
    if (origin_.set_positions.size() != sets_.size()) {
      refuse(fmt::format("the origin has positions of {} sets, and there are {}",
                         origin_.set_positions.size(), sets_.size()));
    }
    return;
  }
  if (epoch_samples != 0 && epoch_samples != epoch_samples_) {
    refuse(
        fmt::format("epoch_samples is {}, but sets without weights have {} samples an epoch; "
                    "leave it out, or give the sets weights",
                    with_commas(epoch_samples), with_commas(epoch_samples_)));
  }
  std::uint64_t end = 0;
  for (const WalkedSet& set : sets_) {
    end += set.member_count * set.repeat;
    ends_.push_back(end);
  }
}

void SetWalk::check(std::uint64_t epoch, std::uint64_t position) const {
  constexpr std::uint64_t kMaxEpoch = std::uint64_t{1} << 40;
  if (epoch >= kMaxEpoch) {
    refuse(fmt::format("epoch is {}{}; it must be from 0 to 2^40 - 1", epoch,
                       epoch > ~std::uint64_t{0} / 2
                           ? fmt::format(" ({})", static_cast<std::int64_t>(epoch))
                           : ""));
  }
  if (position >= epoch_samples_) {
    refuse(fmt::format("position is {}; an epoch has {} samples", with_commas(position),
                       with_commas(epoch_samples_)));
  }
  if (!is_weighted()) return;
  if (static_cast<Wide>(epoch + 1) * epoch_samples_ > Wide{1} << 63) {
    refuse(fmt::format("epoch {} of {} samples ends beyond 2^63 samples; use fewer epoch_samples",
                       epoch, with_commas(epoch_samples_)));
  }
  if (epoch < origin_.epoch || (epoch == origin_.epoch && position < origin_.position)) {
    refuse(
        fmt::format("position {} of epoch {} lies before position {} of epoch {}, where the "
                    "weights were changed; go back with a state saved before that, or without",
                    position, epoch, origin_.position, origin_.epoch));
  }
}

/// Turns between the origin and a position that is not before it.
std::uint64_t SetWalk::since_origin(std::uint64_t epoch, std::uint64_t position) const noexcept {
  return (epoch - origin_.epoch) * epoch_samples_ + position - origin_.position;
}

Turn SetWalk::at(std::uint64_t epoch, std::uint64_t position) const noexcept {
  if (is_weighted()) {
    std::uint64_t turns = since_origin(epoch, position);
    std::uint64_t sum = share_sum_;
    std::size_t set = 0;
    for (; set + 1 < sets_.size(); ++set) {
      const std::uint64_t before = part_of(turns, shares_[set], sum);
      if (part_of(turns + 1, shares_[set], sum) != before) {
        turns = before;
        break;
      }
      turns -= before;
      sum -= shares_[set];
    }
    turns += origin_.set_positions[set];
    const std::uint64_t count = sets_[set].member_count;
    return {set, turns / count, turns % count};
  }
  const auto at = std::upper_bound(ends_.begin(), ends_.end(), position) - ends_.begin();
  const auto set = static_cast<std::size_t>(at);
  const std::uint64_t inside = position - (set == 0 ? 0 : ends_[set - 1]);
  const WalkedSet& walked = sets_[set];
  const std::uint64_t pass = epoch * walked.repeat + inside / walked.member_count;
  return {set, pass, inside % walked.member_count};
}

std::vector<std::uint64_t> SetWalk::set_positions(std::uint64_t epoch,
                                                  std::uint64_t position) const {
  std::vector<std::uint64_t> positions;
  if (is_weighted()) {
    std::uint64_t turns = since_origin(epoch, position);
    std::uint64_t sum = share_sum_;
    for (std::size_t set = 0; set < sets_.size(); ++set) {
      const std::uint64_t mine = part_of(turns, shares_[set], sum);
      positions.push_back(origin_.set_positions[set] + mine);
      turns -= mine;
      sum -= shares_[set];
    }
    return positions;
  }
  std::uint64_t begin = 0;
  for (std::size_t set = 0; set < sets_.size(); ++set) {
    const std::uint64_t an_epoch = ends_[set] - begin;
    const std::uint64_t inside = std::min(position > begin ? position - begin : 0, an_epoch);
    const Wide all = static_cast<Wide>(epoch) * an_epoch + inside;
    positions.push_back(static_cast<std::uint64_t>(std::min(all, Wide{~std::uint64_t{0}})));
    begin = ends_[set];
  }
  return positions;
}

}  // namespace feedrace::order
