// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/mixing.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace feedrace::order {
namespace {

/// Stretches that `draws` members out of `count` fall into, drawn without putting back.
double expected_stretches(std::uint64_t count, std::uint64_t draws) {
  const auto all = static_cast<double>(count);
  const auto stretches = static_cast<double>(draws);
  const double length = all / stretches;
  double missed = 1;  // The probability that one stretch is missed by every draw.
  for (std::uint64_t i = 0; i < draws && missed > 0; ++i) {
    const auto drawn = static_cast<double>(i);
    missed *= std::max(0.0, (all - length - drawn) / (all - drawn));
  }
  return stretches * (1 - missed);
}

}  // namespace

Mixing measure_mixing(const SampleOrder& order, std::uint64_t epoch, std::uint64_t global_batch) {
  constexpr std::uint64_t kMostBatches = 16;
  const std::uint64_t members = order.member_count();
  const std::uint64_t samples = order.epoch_samples();
  Mixing mixing;
  mixing.batch_samples = std::min({global_batch, kMaxMixingSamples, members, samples});
  const std::uint64_t steps = std::max<std::uint64_t>(1, samples / global_batch);
  const std::uint64_t batches = std::min(kMostBatches, steps);
  const double length = static_cast<double>(members) / static_cast<double>(mixing.batch_samples);
  std::vector<std::optional<PassOrder>> passes(order.walk().sets().size());
  for (std::uint64_t i = 0; i < batches; ++i) {
    const std::uint64_t begin = steps / batches * i * global_batch;
    std::vector<std::uint64_t> seen;
    for (std::uint64_t p = 0; p < mixing.batch_samples; ++p) {
      const Turn turn = order.walk().at(epoch, begin + p);
      std::optional<PassOrder>& pass = passes[turn.set];
      if (!pass || pass->pass() != turn.pass) pass = order.pass_order(turn.set, turn.pass);
      const Pick pick = order.pick(turn, *pass);
      const auto member = static_cast<double>(order.first_member(pick.set) + pick.member);
      seen.push_back(static_cast<std::uint64_t>(member / length));
    }
    std::sort(seen.begin(), seen.end());
    const auto distinct = std::unique(seen.begin(), seen.end()) - seen.begin();
    mixing.stretches += static_cast<double>(distinct) / static_cast<double>(batches);
  }
  mixing.random_stretches = expected_stretches(members, mixing.batch_samples);
  mixing.score = std::min(1.0, mixing.stretches / mixing.random_stretches);
  return mixing;
}

}  // namespace feedrace::order
