// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/batch_digest.h"

#include <cstddef>

#include <xxhash.h>

namespace feedrace::tools {

std::vector<PlaceDigest> digest_places(const Batch& batch) {
  std::vector<PlaceDigest> places;
  places.reserve(batch.size());
  const auto* images = static_cast<const std::byte*>(batch.images.data);
  const auto* labels = static_cast<const std::int64_t*>(batch.labels.data);
  const std::size_t image_bytes = batch.size() == 0 ? 0 : batch.images.size_bytes() / batch.size();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    places.push_back({batch.indices[i], labels[i], batch.flags[i],
                      XXH3_64bits(images + i * image_bytes, image_bytes)});
  }
  return places;
}

std::uint64_t digest_all(const std::vector<PlaceDigest>& places) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(places.size() * 4);
  for (const PlaceDigest& place : places) {
    numbers.insert(numbers.end(), {place.sample, static_cast<std::uint64_t>(place.label),
                                   static_cast<std::uint64_t>(place.flag), place.pixels});
  }
  return XXH3_64bits(numbers.data(), numbers.size() * sizeof numbers[0]);
}

}  // namespace feedrace::tools
