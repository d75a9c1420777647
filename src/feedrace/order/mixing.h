// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "feedrace/order/sample_order.h"

namespace feedrace::order {

/// How well an order mixes. The members, in stored order, are cut into as many equal stretches as a
/// global batch has samples; a batch that draws from many of them is well mixed.
struct Mixing {
  std::uint64_t batch_samples = 0;  ///< Looked at in a batch: at most `kMaxMixingSamples`.
  double stretches = 0;             ///< That a batch draws from, mean over some batches.
  double random_stretches = 0;      ///< That it would draw from if any sample could come next.
  /// `stretches / random_stretches`, at most 1: 1 for a global shuffle, near 0 for the stored
  /// order.
  double score = 0;
};

/// Enough for a figure that differs by less than 1 % from one of more, and for well under a
/// millisecond at the start of every loader.
inline constexpr std::uint64_t kMaxMixingSamples = 256;

/// Looks at up to 16 global batches, evenly spread over the epoch. The same for every rank.
Mixing measure_mixing(const SampleOrder& order, std::uint64_t epoch, std::uint64_t global_batch);

}  // namespace feedrace::order
