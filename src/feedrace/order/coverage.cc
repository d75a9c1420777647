// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/coverage.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::order {
namespace {

constexpr std::uint64_t kMostCount = std::numeric_limits<std::uint8_t>::max();

/// The passes that a set's stretch [begin, end) holds whole.
std::uint64_t whole_passes(std::uint64_t begin, std::uint64_t end, std::uint64_t members) {
  const std::uint64_t first = (begin + members - 1) / members;
  const std::uint64_t last = end / members;
  return last > first ? last - first : 0;
}

/// Members that came less than `least` or more than `most` times. A count stops at the largest that
/// a byte holds, which may stand for more.
std::uint64_t count_outside(const std::vector<std::uint8_t>& counts, std::uint64_t least,
                            std::uint64_t most) {
  return static_cast<std::uint64_t>(std::count_if(
      counts.begin(), counts.end(),
      [&](std::uint8_t count) { return count > most || (count < least && count < kMostCount); }));
}

}  // namespace

CoverageCount::CoverageCount(const SampleOrder& order, const Split& split, std::uint64_t epoch)
    : order_(order), split_(split), epoch_(epoch) {
  for (const WalkedSet& set : order.walk().sets()) counts_.emplace_back(set.member_count);
}

void CoverageCount::add(const Pick& pick) {
  ++coverage_.places;
  if (pick.is_padding) {
    ++coverage_.padded;
    return;
  }
  std::uint8_t& count = counts_[pick.set][pick.member];
  if (count < kMostCount) ++count;
}

void CoverageCount::check_totals() {
  if (coverage_.padded != split_.padded) {
    coverage_.problems.push_back(
        fmt::format("{} places are padding; the split says {}", coverage_.padded, split_.padded));
  }
  const std::uint64_t real = coverage_.places - coverage_.padded;
  if (real + split_.dropped != order_.epoch_samples()) {
    coverage_.problems.push_back(fmt::format("{} samples came and {} are dropped; an epoch has {}",
                                             with_commas(real), with_commas(split_.dropped),
                                             with_commas(order_.epoch_samples())));
  }
}

/// Checks one set, of which the epoch takes the stretch [begin, end).
void CoverageCount::check_set(std::size_t set, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t members = order_.walk().sets()[set].member_count;
  const auto left_out =
      static_cast<std::uint64_t>(std::count(counts_[set].begin(), counts_[set].end(), 0));
  coverage_.left_out += left_out;
  coverage_.delivered += members - left_out;
  const std::uint64_t whole = whole_passes(begin, end, members);
  // A stretch that begins and ends inside passes may hold a part of one more at either end.
  const std::uint64_t most = whole + (begin % members != 0 ? 1 : 0) + (end % members != 0 ? 1 : 0);
  const std::uint64_t wrong = count_outside(counts_[set], whole, most);
  if (wrong == 0) return;
  coverage_.problems.push_back(
      fmt::format("{} of {} samples of {} did not come {} times", with_commas(wrong),
                  with_commas(members), printable(order_.options().sets[set].name),
                  whole == most ? fmt::format("{}", whole) : fmt::format("{} to {}", whole, most)));
}

Coverage CoverageCount::finish() {
  check_totals();
  const std::uint64_t last = order_.epoch_samples() - split_.dropped;
  const auto begins = order_.walk().set_positions(epoch_, 0);
  const auto ends = order_.walk().set_positions(epoch_, last);
  for (std::size_t set = 0; set < counts_.size(); ++set) check_set(set, begins[set], ends[set]);
  return coverage_;
}

Coverage check_epoch(const std::shared_ptr<const SampleOrder>& order, const SplitOptions& split,
                     std::uint64_t epoch, const std::function<void(std::uint64_t)>& progress) {
  constexpr std::uint64_t kProgressEvery = 1 << 16;
  CoverageCount count(*order, make_split(split, order->epoch_samples()), epoch);
  for (std::uint64_t rank = 0; rank < split.world_size; ++rank) {
    SplitOptions own = split;
    own.rank = rank;
    const EpochOrder batches(order, own, epoch);
    for (std::uint64_t batch = 0; batch < batches.split().steps; ++batch) {
      for (std::uint64_t i = 0; i < batches.batch_size(batch); ++i) {
        count.add(batches.pick(batch, i));
        if (count.places() % kProgressEvery == 0 && progress) progress(count.places());
      }
    }
  }
  return count.finish();
}

}  // namespace feedrace::order
