// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "feedrace/tensor.h"

namespace feedrace::tools {

/// What one place of a batch holds. Equal digests: equal bytes, in all likelihood (XXH3, 64 bits).
struct PlaceDigest {
  std::uint64_t sample = 0;
  std::int64_t label = -1;
  SampleFlag flag = SampleFlag::kReal;
  std::uint64_t pixels = 0;  ///< Of the bytes of the image.

  friend bool operator==(const PlaceDigest&, const PlaceDigest&) = default;
};

/// One for each place of the batch, in order.
std::vector<PlaceDigest> digest_places(const Batch& batch);

/// One number over all of them.
std::uint64_t digest_all(const std::vector<PlaceDigest>& places);

}  // namespace feedrace::tools
