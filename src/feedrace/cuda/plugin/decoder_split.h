// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace feedrace::cuda_plugin {

/// A picture that is to be decoded.
struct DecodeCost {
  std::size_t index = 0;      ///< Of the call's pictures.
  std::uint64_t cost = 0;     ///< Encoded bytes: both ways walk every bit of them.
  bool engine_takes = false;  ///< Else only the software does.
};

/// The indexes of the pictures that the hardware engine gets, so that both ways end together: the
/// engine is taken to work share / (1 - share) times as fast as the software. What the engine does
/// not take is the software's; then the rest, largest first, each to the way that ends it earlier.
/// So of a batch of equal pictures the engine gets `share`; of one with many that it refuses, more
/// of the others. In rising order.
std::vector<std::size_t> pictures_of_engine(std::span<const DecodeCost> pictures, double share);

}  // namespace feedrace::cuda_plugin
