// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "feedrace/ranks.h"

namespace feedrace::ranks {

/// Gives every rank's text to every rank, by rank, through `check.folder`; `world.size` is 2 or
/// more. Where ranks disagree about the size, there are as many as rank 0 thinks, and those that
/// have not come are empty. Ranks whose occasions differ wait for each other. Throws Error: kIo
/// when the folder can't be used or a rank has not come within the time; kInvalidArgument when two
/// processes say that they are the same rank, as far as that is seen.
///
/// All ranks meet at rank 0, which writes `rank-0.json` with a nonce of its own. Rank i writes
/// `rank-i.json` with its nonce, the nonce that it saw, and its text; rank 0 takes files that echo
/// its nonce, and writes all texts with the nonces they came with; rank i takes an answer that has
/// its nonce. So what a dead run left is never taken for an answer, and no clocks are compared.
std::vector<std::string> exchange_in_folder(const RankCheck& check, const World& world,
                                            const std::string& occasion, const std::string& text);

}  // namespace feedrace::ranks
