// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/loader.h"

namespace feedrace::tools {

/// What a part of the way gives when nothing else is done.
struct MeasuredPart {
  std::string name;           ///< "storage".
  std::string of;             ///< "the samples as they lie, nothing decoded".
  std::vector<double> rates;  ///< Images/s, of each slice of the time; empty: not measured.
  std::string reason;         ///< Why not.
};

struct CeilingsJob {
  LoaderOptions loader;
  double seconds = 3;               ///< Of each part.
  std::size_t picture_limit = 256;  ///< Kept in memory, and written to `scratch`.
  std::string scratch;              ///< A folder for a shard of some samples; empty: none is made.
  /// Of the training loop by itself, images/s, as somebody measured it.
  std::optional<double> consumer = std::nullopt;
};

/// "storage", "packed", "decode", "decode_indexed", "augment", "copy", "loader", "consumer", in
/// this order. Throws Error: what a loader of these options throws; kCorruptData where a crop index
/// changes a pixel; kIo where `scratch` can't be written.
std::vector<MeasuredPart> measure_ceilings(const CeilingsJob& job);

}  // namespace feedrace::tools
