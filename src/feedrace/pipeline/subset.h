// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "feedrace/format.h"
#include "feedrace/order.h"
#include "feedrace/order/selection.h"

namespace feedrace::pipeline {

struct ChosenSubset {
  order::Selection selection = order::Selection::all(0);
  std::string text;  ///< "all", or what is chosen, with a digest of it: equal for equal subsets.
};

/// Finds the samples of a subset. Looks at keys on several threads where the subset asks for them.
/// Throws Error kInvalidArgument: an index or key that the data set does not have (names the first,
/// counts the others), a key that is asked for and comes twice in the set, indices and keys
/// together, a share out of [0, 1], nothing left.
ChosenSubset choose_subset(const formats::Dataset& dataset, const Subset& subset);

/// The place of a key in [0, 1) by which shares split a set: a function of key and salt alone.
double share_place(std::string_view key, std::uint64_t salt) noexcept;

}  // namespace feedrace::pipeline
