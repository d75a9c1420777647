// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/show_order.h"

#include <algorithm>
#include <functional>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/sample_flag.h"

namespace feedrace::tools {
namespace {

constexpr std::uint64_t kShownFirst = 8;  // Of a long batch, and the last one.
constexpr std::size_t kShownWidth = 44;   // Columns of these, about, for lines of 120.
constexpr std::uint64_t kShownKeys = 3;
constexpr std::size_t kIndent = 10;

/// One rank's part of one step.
struct Part {
  const OrderView& view;
  const order::EpochOrder& batches;
  std::uint64_t rank = 0;
  std::uint64_t step = 0;

  std::uint64_t size() const { return batches.batch_size(step); }
  order::Pick pick(std::uint64_t place) const { return batches.pick(step, place); }
  std::uint64_t position(std::uint64_t place) const {
    return batches.position_of(step) + rank * size() + place;
  }
};

void for_each_part(const OrderView& view, const StepRange& steps,
                   const std::function<void(const Part&)>& visit) {
  std::vector<order::EpochOrder> ranks;
  ranks.reserve(view.split.world_size);
  for (std::uint64_t rank = 0; rank < view.split.world_size; ++rank) {
    ranks.push_back(view.batches_of(rank));
  }
  const std::uint64_t all = ranks.front().split().steps;
  if (steps.first >= all) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--step is {}; an epoch has the steps 0 to {}", steps.first, all - 1));
  }
  const std::uint64_t end = steps.first + std::min(steps.count, all - steps.first);
  for (std::uint64_t step = steps.first; step < end; ++step) {
    for (std::uint64_t rank = 0; rank < ranks.size(); ++rank) {
      visit({view, ranks[rank], rank, step});
    }
  }
}

std::string samples_text(const Part& part) {
  std::string text;
  const auto add = [&](std::uint64_t place) {
    const order::Pick pick = part.pick(place);
    text += fmt::format(" {}{}", pick.sample, pick.is_padding ? "(pad)" : "");
  };
  std::uint64_t shown = 0;
  while (shown < std::min(part.size(), kShownFirst) && text.size() < kShownWidth) add(shown++);
  const std::uint64_t left = part.size() - shown;
  if (left > 1) text += fmt::format(" ... {} more ...", with_commas(left - 1));
  if (left > 0) add(part.size() - 1);
  return text;
}

std::string keys_text(const Part& part) {
  std::string text;
  const bool has_sets = part.view.order->options().sets.size() > 1;
  const std::uint64_t shown = std::min(part.size(), kShownKeys);
  for (std::uint64_t place = 0; place < shown; ++place) {
    const order::Pick pick = part.pick(place);
    text += place == 0 ? "" : ", ";
    if (has_sets) text += printable(part.view.set_name(pick.set)) + ": ";
    text += printable(part.view.dataset->key(pick.sample));
  }
  return text + (shown < part.size() ? ", ..." : "");
}

}  // namespace

std::string order_text(const OrderView& view, const StepRange& steps) {
  std::string text = fmt::format("samples of epoch {}\n", view.epoch);
  for_each_part(view, steps, [&](const Part& part) {
    text += fmt::format("step {}  rank {}  positions {}-{}  samples{}\n", part.step, part.rank,
                        part.position(0), part.position(part.size() - 1), samples_text(part));
    text += std::string(kIndent, ' ') + keys_text(part) + "\n";
  });
  return text;
}

nlohmann::ordered_json order_json(const OrderView& view, const StepRange& steps) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for_each_part(view, steps, [&](const Part& part) {
    for (std::uint64_t place = 0; place < part.size(); ++place) {
      const order::Pick pick = part.pick(place);
      nlohmann::ordered_json entry = {{"epoch", view.epoch},
                                      {"step", part.step},
                                      {"rank", part.rank},
                                      {"place", place},
                                      {"position", part.position(place)},
                                      {"sample", pick.sample}};
      put_text(entry, "set", view.set_name(pick.set));
      put_text(entry, "key", view.dataset->key(pick.sample));
      entry["flag"] = name_of(pick.is_padding ? SampleFlag::kPadded : SampleFlag::kReal);
      list.push_back(std::move(entry));
    }
  });
  return list;
}

}  // namespace feedrace::tools
