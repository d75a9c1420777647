// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "feedrace/ranks.h"

namespace feedrace::ranks {

/// What must be the same on every rank, as (name, value) pairs in an order of importance:
/// ("version", "0.1.0"), ("seed", "7"), ("fingerprint of /data/train", "…").
using RankFacts = std::vector<std::pair<std::string, std::string>>;

/// Exchanges the facts with all ranks and compares them with those of rank 0. Does nothing in a
/// world of one. `occasion` tells exchanges of one run apart ("start", "state 1"); the ranks make
/// them in the same order. Throws Error: kInvalidArgument when a rank's facts differ (names ranks,
/// fact, both values, on every rank), when two processes say that they are the same rank, when
/// neither or both ways are given; kIo when the folder can't be used, or a rank has not come within
/// the time (names the missing ranks).
void check_ranks(const RankCheck& check, const World& world, const std::string& occasion,
                 const RankFacts& facts);

}  // namespace feedrace::ranks
