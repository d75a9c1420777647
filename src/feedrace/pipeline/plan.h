// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "feedrace/loader.h"
#include "feedrace/order/epoch_order.h"
#include "feedrace/pipeline/batch_slot.h"
#include "feedrace/pipeline/open_sets.h"

namespace feedrace::pipeline {

/// Threads that decode when the user names none: all usable cores, from `kCoresBeforeReserve` up
/// less `kReservedCores`.
std::size_t default_decode_threads(std::size_t usable_cores) noexcept;

/// Number and size of the read buffers of each reader.
struct BufferShape {
  std::size_t count = 0;
  std::size_t bytes = 0;
  std::size_t base_count =
      0;  ///< Of `count`, those for reads on their way; the rest hold a window.
};
/// At least `kDefaultBufferCount` x `kDefaultBufferBytes`; larger where the mean image would fill
/// more than half a buffer, more where queue and threads need more. A window shuffle over shards
/// gets buffers of a chunk each, and as many more as hold `window_samples` (0: no such shuffle).
BufferShape plan_buffers(const LoaderOptions& options, std::size_t decode_threads,
                         double mean_image_bytes, std::uint64_t window_samples);

/// What is fixed before the first read, besides the plan that the user sees.
struct Sizing {
  Plan plan;
  BufferShape buffers;
  std::size_t reader_count = 1;
  std::size_t horizon = 1;  ///< See `Lookahead::Options`.
  std::shared_ptr<const order::SampleOrder> order;
  order::SplitOptions split;
  std::size_t planned_slots = 0;
  std::size_t slot_limit = 0;            ///< With those that a consumer may keep.
  std::uint64_t ragged_limit_bytes = 0;  ///< Of pictures that differ in size, of all slots.
  std::uint64_t max_sample_bytes = 0;    ///< A larger sample would break the memory limit.
};

/// Throws Error kInvalidArgument: a value out of its range (names it, the range).
void check_options(const LoaderOptions& options);

/// Makes the plan, but for the back end's lines, of options that were checked. Throws Error
/// kInvalidArgument: no batch or an uneven one for some rank, a memory limit below the need.
/// `decodes_on_device`: batch slots keep encoded pictures as well.
Sizing make_sizing(const LoaderOptions& options, const OpenedSets& opened, std::size_t reader_count,
                   bool decodes_on_device = false);

/// The order of the options over opened sets; `origin` as `order::SetWalk` takes it.
std::shared_ptr<const order::SampleOrder> make_order(const LoaderOptions& options,
                                                     const OpenedSets& opened,
                                                     const order::State::Origin& origin);

}  // namespace feedrace::pipeline
