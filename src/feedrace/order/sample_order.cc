// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/sample_order.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/random.h"

namespace feedrace::order {
namespace {

// Keeps the draws of substitutes apart from the order's and the ops'.
constexpr std::uint32_t kSubstituteStream = 0x73756273;
// Passes are counted below this bit of a draw, repeats of a sample in one pass from it up.
constexpr unsigned kRepeatShift = 44;

std::vector<WalkedSet> walked_sets(const std::vector<OrderedSet>& sets) {
  std::vector<WalkedSet> walked;
  walked.reserve(sets.size());
  for (const OrderedSet& set : sets) {
    walked.push_back({set.selection->size(), set.repeat, set.weight});
  }
  return walked;
}

std::string describe_sets(const OrderOptions& options, const SetWalk& walk) {
  std::string text;
  for (const OrderedSet& set : options.sets) {
    text += text.empty() ? "" : ", ";
    text += printable(set.name);
    if (walk.is_weighted()) text += fmt::format(" {:g}", set.weight);
    if (set.repeat > 1) text += fmt::format(" {} times", with_commas(set.repeat));
  }
  return text;
}

}  // namespace

SampleOrder::SampleOrder(OrderOptions options)
    : options_(std::move(options)),
      walk_(walked_sets(options_.sets), options_.epoch_samples, options_.origin) {
  for (const std::uint64_t size :
       {options_.shuffle.chunk_samples, options_.shuffle.window_samples}) {
    if (size != 0) continue;
    throw Error(ErrorCode::kInvalidArgument,
                "a shuffle chunk or window has 0 samples; it must have at least 1");
  }
  std::uint64_t members = 0;
  for (const WalkedSet& set : walk_.sets()) {
    first_members_.push_back(members);
    members += set.member_count;
  }
  first_members_.push_back(members);
}

PassOrder SampleOrder::pass_order(std::size_t set, std::uint64_t pass) const {
  return {options_.shuffle, walk_.sets()[set].member_count, static_cast<std::uint32_t>(set), pass};
}

Pick SampleOrder::pick(const Turn& turn, const PassOrder& order) const noexcept {
  const OrderedSet& set = options_.sets[turn.set];
  Pick pick;
  pick.set = turn.set;
  pick.member = order(turn.place);
  pick.sample = set.first_sample + set.selection->sample(pick.member);
  pick.draw = turn.pass ^ set.selection->occurrence(pick.member) << kRepeatShift;
  return pick;
}

Pick SampleOrder::substitute(const Pick& bad, std::uint32_t attempt) const noexcept {
  const OrderedSet& set = options_.sets[bad.set];
  const std::uint64_t count = set.selection->size();
  if (count == 1) return bad;
  SampleRandom random(options_.shuffle.seed, bad.draw, bad.sample, kSubstituteStream);
  std::uint64_t member = 0;
  for (std::uint32_t draw = 0; draw <= attempt; ++draw) member = random.below(count - 1);
  if (member >= bad.member) ++member;  // Skips the bad one itself.
  Pick pick = bad;
  pick.member = member;
  pick.sample = set.first_sample + set.selection->sample(member);
  return pick;
}

std::string SampleOrder::describe() const {
  const ShuffleOptions& shuffle = options_.shuffle;
  std::string text;
  switch (shuffle.shuffle) {
    case Shuffle::kNone:
      text = std::any_of(options_.sets.begin(), options_.sets.end(),
                         [](const OrderedSet& set) { return set.selection->is_list(); })
                 ? "as listed"
                 : "as stored";
      break;
    case Shuffle::kWindow:
      text = fmt::format("window shuffle ({} samples in chunks of {}), seed {}",
                         with_commas(shuffle.window_samples), with_commas(shuffle.chunk_samples),
                         shuffle.seed);
      break;
    case Shuffle::kGlobal:
      text = fmt::format("global shuffle, seed {}", shuffle.seed);
      break;
  }
  if (options_.sets.size() > 1) {
    text += walk_.is_weighted() ? "; mixed by weight: " : "; one after another: ";
    text += describe_sets(options_, walk_);
  } else if (options_.sets[0].repeat > 1) {
    text += fmt::format("; {} passes an epoch", with_commas(options_.sets[0].repeat));
  }
  return text;
}

}  // namespace feedrace::order
