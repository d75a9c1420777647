// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "feedrace/cuda/device_arena.h"
#include "feedrace/cuda/picture_decoder.h"
#include "feedrace/order/sample_order.h"
#include "feedrace/pipeline/pinned_arena.h"
#include "feedrace/pipeline/ragged_memory.h"
#include "feedrace/transform/fused_head.h"

namespace feedrace {

/// The pictures of one batch that come to a device before the pass: encoded ones, which it is to
/// decode, as a copy of their bytes, so that the read buffer goes back at once; of decoded ones the
/// pixels, in pinned memory. Decode threads fill places side by side, each once. Memory is kept
/// from batch to batch.
class DeviceInput {
 public:
  struct Place {
    std::vector<std::byte> encoded;  // Its capacity is kept.
    std::uint64_t counted_bytes = 0;
    cuda::Picture picture;  ///< Without bytes of either kind where the host makes it.
    order::Pick pick;
    /// Of pixels: what is left to do, for the host where the device can't.
    std::optional<transform::FusedHead> head;
  };

  /// `pin` may be empty.
  DeviceInput(std::shared_ptr<RaggedMemory> memory, PinMemory pin)
      : memory_(std::move(memory)), pixels_(memory_, std::move(pin)) {}
  ~DeviceInput() {
    for (const Place& place : places_) memory_->remove(place.counted_bytes);
  }
  DeviceInput(const DeviceInput&) = delete;
  DeviceInput& operator=(const DeviceInput&) = delete;

  /// Before any place is filled: none is a device's so far.
  void begin(std::size_t place_count) {
    if (places_.size() < place_count) places_.resize(place_count);
    for (Place& place : places_) {
      place.picture = {};
      place.head.reset();
    }
    pixels_.clear();
    if (on_device_) on_device_->clear();
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
  /// Room for pixels, to be given to `put_pixels` once they are there; empty when the memory limit
  /// is reached.
  std::span<std::byte> try_take_pixels(std::size_t bytes) { return pixels_.try_take(bytes); }
  void put_pixels(std::size_t index, const order::Pick& pick, std::span<const std::byte> pixels,
                  const cuda::Picture& picture, const transform::FusedHead& head) {
    Place& place = places_[index];
    place.picture = picture;
    place.picture.pixels = pixels;
    place.pick = pick;
    place.head = head;
  }
  /// Memory of the device for rows of a picture. Throws DeviceMemoryError.
  std::uint64_t take_on_device(const std::shared_ptr<cuda::Device>& device, std::size_t bytes) {
    std::call_once(is_made_, [&] { on_device_.emplace(device); });
    return on_device_->take(bytes);
  }
  /// Its rows lie there.
  void put_rows(std::size_t index, const order::Pick& pick, const feedrace_cuda_picture& rows,
                const cuda::Picture& picture, const transform::FusedHead& head) {
    put_pixels(index, pick, {}, picture, head);
    places_[index].picture.rows = rows;
  }
  std::span<Place> places() noexcept { return places_; }

 private:
  const std::shared_ptr<RaggedMemory> memory_;
  std::vector<Place> places_;
  PinnedArena pixels_;
  std::once_flag is_made_;
  std::optional<cuda::DeviceArena> on_device_;  // Where cuFile reads.
};

}  // namespace feedrace
