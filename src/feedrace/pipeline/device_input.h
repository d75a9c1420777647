// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "feedrace/cuda/picture_decoder.h"
#include "feedrace/order/sample_order.h"
#include "feedrace/pipeline/ragged_memory.h"

namespace feedrace {

/// The pictures of one batch that a device is to decode: their bytes, copied so that the read
/// buffer goes back at once. Decode threads fill places side by side, each once. Memory is kept
/// from batch to batch.
class DeviceInput {
 public:
  struct Place {
    std::vector<std::byte> encoded;  // Its capacity is kept.
    std::uint64_t counted_bytes = 0;
    cuda::Picture picture;  ///< `encoded` is empty where the host decodes.
    order::Pick pick;
  };

  explicit DeviceInput(std::shared_ptr<RaggedMemory> memory) : memory_(std::move(memory)) {}
  ~DeviceInput() {
    for (const Place& place : places_) memory_->remove(place.counted_bytes);
  }
  DeviceInput(const DeviceInput&) = delete;
  DeviceInput& operator=(const DeviceInput&) = delete;

  /// Before any place is filled: none is a device's so far.
  void begin(std::size_t place_count) {
    if (places_.size() < place_count) places_.resize(place_count);
    for (Place& place : places_) place.picture = {};
  }
  /// Throws Error kInvalidArgument when the memory limit is reached.
  void put(std::size_t index, const order::Pick& pick, std::span<const std::byte> encoded,
           const cuda::Picture& picture) {
    Place& place = places_[index];
    if (encoded.size() > place.counted_bytes) {
      memory_->add(encoded.size() - place.counted_bytes);
      place.counted_bytes = encoded.size();
      place.encoded = {};
      place.encoded.reserve(encoded.size());
    }
    place.encoded.assign(encoded.begin(), encoded.end());
    place.picture = picture;
    place.picture.encoded = place.encoded;
    place.pick = pick;
  }
  std::span<Place> places() noexcept { return places_; }

 private:
  const std::shared_ptr<RaggedMemory> memory_;
  std::vector<Place> places_;
};

}  // namespace feedrace
