// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "feedrace/loader.h"
#include "feedrace/order/epoch_order.h"
#include "feedrace/order/state.h"
#include "feedrace/ranks/rank_check.h"

namespace feedrace::pipeline {

/// The state of a loader at the start of epoch 0, from which `state_at` makes those of other
/// positions.
order::State make_base_state(const LoaderOptions& options, const order::SampleOrder& order,
                             const order::SplitOptions& split,
                             const std::vector<order::SetState>& sets);

/// `base` moved to a position. The end of an epoch is the start of the next one: whoever goes on
/// from there gets a batch, not an empty epoch.
order::State state_at(const order::State& base, const order::SampleOrder& order,
                      std::uint64_t epoch, std::uint64_t position);

/// What must be the same on every rank at the start.
ranks::RankFacts rank_facts(const order::State& base, const std::vector<std::string>& classes);

/// The weights that a state was saved with differ from `current`, or sets came or went: from here
/// on each set goes on from its own position, a new one from its start.
bool is_mix_changed(const order::State& saved, const order::State& current);
order::State::Origin origin_of_change(const order::State& saved, const order::State& current);

}  // namespace feedrace::pipeline
