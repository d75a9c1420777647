// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/epoch_order.h"

#include <algorithm>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/random.h"

namespace feedrace::order {
namespace {
// Keeps the draws of substitutes apart from the order's and the ops'.
constexpr std::uint32_t kSubstituteStream = 0x73756273;
}  // namespace

EpochPlan plan_epoch(const OrderOptions& options) {
  if (options.batch_size == 0) {
    throw Error(ErrorCode::kInvalidArgument, "batch_size is 0; it must be at least 1");
  }
  if (options.sample_count == 0) {
    throw Error(ErrorCode::kInvalidArgument, "the data set has 0 samples; nothing can be loaded");
  }
  EpochPlan plan;
  const std::uint64_t full = options.sample_count / options.batch_size;
  const std::uint64_t rest = options.sample_count % options.batch_size;
  plan.steps = full;
  plan.positions = full * options.batch_size;
  if (rest == 0) return plan;
  switch (options.last_batch) {
    case LastBatchRule::kDrop:
      plan.dropped = rest;
      break;
    case LastBatchRule::kPad:
      ++plan.steps;
      plan.positions += options.batch_size;
      plan.padded = options.batch_size - rest;
      break;
    case LastBatchRule::kPartial:
      ++plan.steps;
      plan.positions += rest;
      break;
  }
  if (plan.steps == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the data set has {} samples, fewer than one batch of {}, and "
                            "last_batch=drop leaves no batch; use a smaller batch size, or "
                            "last_batch=partial or pad",
                            with_commas(options.sample_count), with_commas(options.batch_size)));
  }
  return plan;
}

EpochOrder::EpochOrder(const OrderOptions& options, std::uint64_t epoch)
    : options_(options), epoch_(epoch), plan_(plan_epoch(options)) {
  if (options.shuffle) permutation_.emplace(options.sample_count, options.seed, epoch);
}

std::uint64_t EpochOrder::batch_size(std::uint64_t step) const noexcept {
  return std::min(options_.batch_size, plan_.positions - step * options_.batch_size);
}

Pick EpochOrder::pick(std::uint64_t step, std::uint64_t index) const noexcept {
  const std::uint64_t place = step * options_.batch_size + index;
  Pick pick;
  pick.is_padding = place >= options_.sample_count;
  const std::uint64_t position = place % options_.sample_count;
  pick.sample = permutation_ ? (*permutation_)(position) : position;
  return pick;
}

std::uint64_t EpochOrder::substitute(std::uint64_t sample, std::uint32_t attempt) const noexcept {
  if (options_.sample_count == 1) return sample;
  SampleRandom random(options_.seed, epoch_, sample, kSubstituteStream);
  std::uint64_t chosen = 0;
  for (std::uint32_t draw = 0; draw <= attempt; ++draw) {
    chosen = random.below(options_.sample_count - 1);
  }
  return chosen < sample ? chosen : chosen + 1;  // Skips `sample` itself.
}

std::string describe(const OrderOptions& options) {
  return options.shuffle ? fmt::format("global shuffle, seed {}", options.seed) : "as stored";
}

}  // namespace feedrace::order
