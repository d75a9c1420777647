// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/coverage.h"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::order {
namespace {

using Count = std::uint8_t;
constexpr std::uint64_t kMostCount = std::numeric_limits<Count>::max();

/// How often each member of one set came, and may come.
class SetCounts {
 public:
  explicit SetCounts(std::uint64_t members) : counts_(members) {}

  void add(std::uint64_t member) {
    Count& count = counts_[member];
    if (count < kMostCount) ++count;
  }
  std::uint64_t left_out() const {
    return static_cast<std::uint64_t>(std::count(counts_.begin(), counts_.end(), Count{0}));
  }
  /// Members that came less than `least` or more than `most` times.
  std::uint64_t outside(std::uint64_t least, std::uint64_t most) const {
    return static_cast<std::uint64_t>(
        std::count_if(counts_.begin(), counts_.end(), [&](Count count) {
          const bool may_be_more = count == kMostCount;
          return count > most || (count < least && !may_be_more);
        }));
  }

 private:
  std::vector<Count> counts_;
};

/// The passes that a set's stretch [begin, end) holds whole.
std::uint64_t whole_passes(std::uint64_t begin, std::uint64_t end, std::uint64_t members) {
  const std::uint64_t first = (begin + members - 1) / members;
  const std::uint64_t last = end / members;
  return last > first ? last - first : 0;
}

}  // namespace

Coverage check_epoch(const std::shared_ptr<const SampleOrder>& order, const SplitOptions& split,
                     std::uint64_t epoch, const std::function<void(std::uint64_t)>& progress) {
  constexpr std::uint64_t kProgressEvery = 1 << 16;
  Coverage coverage;
  std::vector<SetCounts> counts;
  for (const WalkedSet& set : order->walk().sets()) counts.emplace_back(set.member_count);
  std::uint64_t steps = 0;
  Split planned;
  for (std::uint64_t rank = 0; rank < split.world_size; ++rank) {
    SplitOptions own = split;
    own.rank = rank;
    const EpochOrder batches(order, own, epoch);
    planned = batches.split();
    if (rank > 0 && planned.steps != steps) {
      coverage.problems.push_back(
          fmt::format("rank {} has {} steps and rank 0 has {}", rank, planned.steps, steps));
    }
    steps = rank == 0 ? planned.steps : steps;
    for (std::uint64_t batch = 0; batch < planned.steps; ++batch) {
      for (std::uint64_t i = 0; i < batches.batch_size(batch); ++i) {
        const Pick pick = batches.pick(batch, i);
        if (++coverage.places % kProgressEvery == 0 && progress) progress(coverage.places);
        if (pick.is_padding) {
          ++coverage.padded;
        } else {
          counts[pick.set].add(pick.member);
        }
      }
    }
  }
  if (coverage.padded != planned.padded) {
    coverage.problems.push_back(
        fmt::format("{} places are padding; the split says {}", coverage.padded, planned.padded));
  }
  const std::uint64_t real = coverage.places - coverage.padded;
  if (real + planned.dropped != order->epoch_samples()) {
    coverage.problems.push_back(fmt::format("{} samples came and {} are dropped; an epoch has {}",
                                            with_commas(real), with_commas(planned.dropped),
                                            with_commas(order->epoch_samples())));
  }
  const auto first = order->walk().set_positions(epoch, 0);
  const auto last = order->walk().set_positions(epoch, real);
  for (std::size_t set = 0; set < counts.size(); ++set) {
    const WalkedSet& walked = order->walk().sets()[set];
    coverage.left_out += counts[set].left_out();
    coverage.delivered += walked.member_count - counts[set].left_out();
    const std::uint64_t whole = whole_passes(first[set], last[set], walked.member_count);
    // A stretch that begins and ends inside passes may hold a part of one more at either end.
    const bool begins_inside = first[set] % walked.member_count != 0;
    const bool ends_inside = last[set] % walked.member_count != 0;
    const std::uint64_t most = whole + (begins_inside ? 1 : 0) + (ends_inside ? 1 : 0);
    if (const std::uint64_t wrong = counts[set].outside(whole, most); wrong > 0) {
      coverage.problems.push_back(fmt::format(
          "{} of {} samples of {} did not come {} times", with_commas(wrong),
          with_commas(walked.member_count), printable(order->options().sets[set].name),
          whole == most ? fmt::format("{}", whole) : fmt::format("{} to {}", whole, most)));
    }
  }
  return coverage;
}

}  // namespace feedrace::order
