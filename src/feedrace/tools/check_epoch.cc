// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/check_epoch.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/tools/progress.h"

namespace feedrace::tools {
namespace {

void check_memory(std::uint64_t members) {
  const auto available = available_memory_bytes();
  if (!available || members <= *available / 2) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("--check-epoch: counting {} samples takes {}, a byte each, more than half "
                  "of the {} that are available; check a part of them by --share, or on a "
                  "machine with more memory",
                  with_commas(members), human_bytes(members), human_bytes(*available)));
}

/// How often each sample came that came at all.
std::string times_text(const OrderView& view, const order::Coverage& coverage) {
  const std::uint64_t real = coverage.places - coverage.padded;
  if (coverage.problems.empty() && real == coverage.delivered) return "exactly once";
  const auto& sets = view.order->walk().sets();
  const std::uint64_t repeat = sets.front().repeat;
  const bool is_even =
      real == coverage.delivered * repeat &&
      std::all_of(sets.begin(), sets.end(), [&](const auto& set) { return set.repeat == repeat; });
  if (coverage.problems.empty() && is_even) return fmt::format("exactly {} times", repeat);
  return fmt::format("at least once (in {} places)", with_commas(real));
}

/// Why some did not come.
std::string left_out_text(const OrderView& view) {
  const std::string rule = fmt::format("last_batch={}", to_string(view.split.last_batch));
  return view.order->walk().is_weighted() ? "weights and " + rule : rule;
}

}  // namespace

order::Coverage count_epoch(const OrderView& view) {
  check_memory(view.order->member_count());
  const order::Split split = order::make_split(view.split, view.order->epoch_samples());
  Progress progress("check", split.samples_a_rank * view.split.world_size);
  return order::check_epoch(view.order, view.split, view.epoch,
                            [&](std::uint64_t places) { progress.update(places); });
}

std::string coverage_text(const OrderView& view, const order::Coverage& coverage) {
  const std::uint64_t ranks = view.split.world_size;
  const auto& sets = view.order->options().sets;
  // A list may name a sample twice, which is two entries.
  const bool has_list = std::any_of(sets.begin(), sets.end(),
                                    [](const auto& set) { return set.selection->is_list(); });
  std::string text = fmt::format(
      "coverage  epoch {}: {} of {} {} {} on {} rank{}, {} padded, {} left out ({})\n", view.epoch,
      with_commas(coverage.delivered), with_commas(view.order->member_count()),
      has_list ? "list entries" : "samples", times_text(view, coverage), ranks,
      ranks == 1 ? "" : "s", with_commas(coverage.padded), with_commas(coverage.left_out),
      left_out_text(view));
  for (const std::string& problem : coverage.problems) text += "problem   " + problem + "\n";
  return text;
}

nlohmann::ordered_json coverage_json(const OrderView& view, const order::Coverage& coverage) {
  return {{"epoch", view.epoch},
          {"ranks", view.split.world_size},
          {"samples", view.order->member_count()},
          {"places", coverage.places},
          {"delivered", coverage.delivered},
          {"repeated", coverage.padded},
          {"left_out", coverage.left_out},
          {"problems", coverage.problems}};
}

}  // namespace feedrace::tools
