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

/// Number and size of the read buffers.
struct BufferShape {
  std::size_t count = 0;
  std::size_t bytes = 0;
};
/// At least `kDefaultBufferCount` x `kDefaultBufferBytes`; larger where the mean image would fill
/// more than half a buffer, more where queue and threads need more.
BufferShape plan_buffers(const LoaderOptions& options, std::size_t decode_threads,
                         double mean_image_bytes);

/// What is fixed before the first read, besides the plan that the user sees.
struct Sizing {
  Plan plan;
  BufferShape buffers;
  std::shared_ptr<const order::SampleOrder> order;
  order::SplitOptions split;
  std::size_t planned_slots = 0;
  std::size_t slot_limit = 0;          ///< With those that a consumer may keep.
  std::uint64_t max_sample_bytes = 0;  ///< A larger sample would break the memory limit.
};

/// Checks the options and makes the plan, but for the back end's lines. Throws Error
/// kInvalidArgument: a value out of its range (names it, the range), no batch or an uneven one for
/// some rank, a memory limit below the need.
Sizing make_sizing(const LoaderOptions& options, const OpenedSets& opened);

/// The order of the options over opened sets; `origin` as `order::SetWalk` takes it.
std::shared_ptr<const order::SampleOrder> make_order(const LoaderOptions& options,
                                                     const OpenedSets& opened,
                                                     const order::State::Origin& origin);

}  // namespace feedrace::pipeline
