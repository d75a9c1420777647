// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/epoch_order.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"

namespace feedrace::order {
namespace {

constexpr std::uint64_t kMaxGlobalBatch = std::uint64_t{1} << 62;

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

void check_split(const SplitOptions& options) {
  if (options.batch_size == 0) refuse("batch_size is 0; it must be at least 1");
  if (options.world_size == 0) refuse("world_size is 0; it must be at least 1");
  if (options.rank >= options.world_size) {
    refuse(fmt::format("rank is {} and world_size {}; a rank is from 0 to world_size - 1",
                       options.rank, options.world_size));
  }
  if (options.batch_size > kMaxGlobalBatch / options.world_size) {
    refuse(fmt::format("batch_size {} of {} ranks is more than 2^62 samples; use a smaller one",
                       options.batch_size, options.world_size));
  }
}

std::string sizes_text(const SplitOptions& options) {
  if (options.world_size == 1) return fmt::format("batches of {}", with_commas(options.batch_size));
  return fmt::format("{} ranks with batches of {} ({} samples a step)",
                     with_commas(options.world_size), with_commas(options.batch_size),
                     with_commas(options.global_batch()));
}

/// What to do where no batch is left of `samples`.
std::string smaller_steps_text(const SplitOptions& options, std::uint64_t samples) {
  if (options.world_size == 1) {
    return fmt::format(
        "use batch_size {} or less, last_batch=\"partial\", which delivers them as one short "
        "batch, "
        "or shuffle=False without last_batch, which does so too",
        samples);
  }
  return "use a smaller batch_size, fewer ranks, last_batch=\"pad\", which shares them out evenly, "
         "or shuffle=False without last_batch, which does so too";
}

}  // namespace

Split make_split(const SplitOptions& options, std::uint64_t remaining) {
  check_split(options);
  Split split;
  split.steps = remaining / options.global_batch();
  split.samples_a_rank = split.steps * options.batch_size;
  split.last_batch_size = split.steps > 0 ? options.batch_size : 0;
  const std::uint64_t rest = remaining % options.global_batch();
  if (rest == 0) return split;
  std::uint64_t last = options.batch_size;
  switch (options.last_batch) {
    case LastBatch::kDrop:
      split.dropped = rest;
      return split;
    case LastBatch::kPad:
      last = (rest - 1) / options.world_size + 1;
      break;
    case LastBatch::kFill:
      break;
    case LastBatch::kPartial:
      last = rest / options.world_size;
      if (rest % options.world_size != 0) {
        refuse(fmt::format(
            "{} samples are left for a last step of {}, which last_batch=partial "
            "can't share evenly, and ranks that differ wait for each other for "
            "ever; use last_batch=pad (repeats {}) or drop (leaves {} out)",
            with_commas(rest), sizes_text(options), (last + 1) * options.world_size - rest, rest));
      }
      break;
  }
  ++split.steps;
  split.samples_a_rank += last;
  split.last_batch_size = last;
  split.padded = last * options.world_size - rest;
  return split;
}

void require_batches(const SplitOptions& options, std::uint64_t samples) {
  if (samples == 0) refuse("the data set has 0 samples; nothing can be loaded");
  if (make_split(options, samples).steps > 0) return;
  refuse(
      fmt::format("an epoch has {} sample{}, fewer than one step of {}, and last_batch=drop leaves "
                  "no batch; {}",
                  with_commas(samples), samples == 1 ? "" : "s", sizes_text(options),
                  smaller_steps_text(options, samples)));
}

EpochOrder::EpochOrder(std::shared_ptr<const SampleOrder> order, const SplitOptions& split,
                       std::uint64_t epoch, std::uint64_t start)
    : order_(std::move(order)), options_(split), epoch_(epoch), start_(start) {
  const SetWalk& walk = order_->walk();
  walk.check(epoch, start);
  split_ = make_split(split, walk.epoch_samples() - start);
  const std::vector<std::uint64_t> positions = walk.set_positions(epoch, start);
  for (std::size_t set = 0; set < positions.size(); ++set) {
    const WalkedSet& walked = walk.sets()[set];
    // Positions of sets without weights may be too large to count; the first pass is known anyhow.
    const std::uint64_t pass =
        walk.is_weighted() ? positions[set] / walked.member_count : epoch * walked.repeat;
    passes_.push_back(order_->pass_order(set, pass));
  }
}

std::uint64_t EpochOrder::batch_size(std::uint64_t batch) const noexcept {
  return batch + 1 == split_.steps ? split_.last_batch_size : options_.batch_size;
}

std::uint64_t EpochOrder::position_behind(std::uint64_t batch) const noexcept {
  if (batch + 1 >= split_.steps) return order_->epoch_samples();
  return position_of(batch + 1);
}

Pick EpochOrder::pick(std::uint64_t batch, std::uint64_t index) const noexcept {
  const std::uint64_t place = position_of(batch) + options_.rank * batch_size(batch) + index;
  const std::uint64_t samples = order_->epoch_samples();
  const bool is_padding = place >= samples;
  const Turn turn = order_->walk().at(epoch_, place % samples);
  const PassOrder& known = passes_[turn.set];
  Pick pick = known.pass() == turn.pass
                  ? order_->pick(turn, known)
                  : order_->pick(turn, order_->pass_order(turn.set, turn.pass));
  pick.is_padding = is_padding;
  return pick;
}

}  // namespace feedrace::order
