// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small orders for the tests of this folder.

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "feedrace/order/epoch_order.h"

namespace feedrace::order {

inline OrderedSet whole_set(std::uint64_t count, std::uint64_t first_sample = 0,
                            double weight = 0) {
  return {"set", std::make_shared<const Selection>(Selection::all(count)), first_sample, 1, weight};
}

inline std::shared_ptr<const SampleOrder> make_sample_order(std::vector<OrderedSet> sets,
                                                            Shuffle shuffle = Shuffle::kGlobal,
                                                            std::uint64_t seed = 11) {
  OrderOptions options;
  options.sets = std::move(sets);
  options.shuffle.shuffle = shuffle;
  options.shuffle.seed = seed;
  options.shuffle.chunk_samples = 4;
  options.shuffle.window_samples = 20;
  return std::make_shared<const SampleOrder>(std::move(options));
}

inline std::vector<Pick> picks_of(const EpochOrder& order, std::uint64_t batch) {
  std::vector<Pick> picks;
  for (std::uint64_t i = 0; i < order.batch_size(batch); ++i) picks.push_back(order.pick(batch, i));
  return picks;
}

inline std::vector<Pick> all_picks(const EpochOrder& order) {
  std::vector<Pick> picks;
  for (std::uint64_t batch = 0; batch < order.split().steps; ++batch) {
    for (const Pick& pick : picks_of(order, batch)) picks.push_back(pick);
  }
  return picks;
}

inline std::vector<std::uint64_t> samples_of(const std::vector<Pick>& picks) {
  std::vector<std::uint64_t> samples;
  samples.reserve(picks.size());
  for (const Pick& pick : picks) samples.push_back(pick.sample);
  return samples;
}

}  // namespace feedrace::order
