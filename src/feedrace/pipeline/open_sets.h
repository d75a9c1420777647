// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "feedrace/formats/sample_spans.h"
#include "feedrace/loader.h"
#include "feedrace/order/sample_order.h"
#include "feedrace/order/state.h"

namespace feedrace::pipeline {

/// The data sets of a loader, opened, and what is drawn from them.
struct OpenedSets {
  std::shared_ptr<const formats::Dataset> dataset;  ///< All of them as one.
  /// The same, when further fields are wanted; else null.
  std::shared_ptr<const formats::SampleSpans> spans;
  std::vector<order::OrderedSet> sets;
  std::vector<order::SetState> states;  ///< What a state says of each, at its start.
  std::vector<std::string> warnings;    ///< About subsets.
};

/// Opens the sets that the options name, applies `number_like` and the subsets. Throws Error: what
/// opening throws; kInvalidArgument: both one set and several, two of the same name, a set without
/// sources, a repeat out of range.
OpenedSets open_sets(const LoaderOptions& options);

/// Opens the data sets that the options name, applies `number_like`, and keeps the results in the
/// options, so that several loaders of them open nothing again. Throws Error: as `open_sets`.
void open_once(LoaderOptions& options);

/// What `LoaderOptions::shuffle` is when it is not set.
Shuffle default_shuffle(const LoaderOptions& options);

}  // namespace feedrace::pipeline
