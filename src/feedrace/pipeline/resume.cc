// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/resume.h"

#include <algorithm>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::pipeline {
namespace {

const char* name_of(OnError on_error) {
  switch (on_error) {
    case OnError::kRaise:
      return "raise";
    case OnError::kReplace:
      return "replace";
    case OnError::kZero:
      return "zero";
  }
  return "";
}

}  // namespace

order::State make_base_state(const LoaderOptions& options, const order::SampleOrder& order,
                             const order::SplitOptions& split,
                             const std::vector<order::SetState>& sets) {
  const order::ShuffleOptions& shuffle = order.options().shuffle;
  order::State state;
  state.seed = shuffle.seed;
  state.shuffle = shuffle.shuffle;
  if (shuffle.shuffle == Shuffle::kWindow) {
    state.chunk_samples = shuffle.chunk_samples;
    state.window_samples = shuffle.window_samples;
  }
  state.epoch_samples = order.epoch_samples();
  state.sets = sets;
  state.batch_size = split.batch_size;
  state.world_size = split.world_size;
  state.last_batch = to_string(split.last_batch);
  state.pipeline = options.pipeline.describe();
  state.on_error = name_of(options.on_error);
  return state;
}

order::State state_at(const order::State& base, const order::SampleOrder& order,
                      std::uint64_t epoch, std::uint64_t position) {
  order::State state = base;
  const bool is_end = position >= order.epoch_samples();
  state.epoch = is_end ? epoch + 1 : epoch;
  state.position = is_end ? 0 : position;
  const order::State::Origin& origin = order.walk().origin();
  const bool has_origin = origin.epoch > 0 || origin.position > 0;
  if (has_origin) state.origin = origin;
  const auto positions = order.walk().set_positions(state.epoch, state.position);
  for (std::size_t i = 0; i < positions.size(); ++i) state.sets[i].position = positions[i];
  return state;
}

ranks::RankFacts rank_facts(const order::State& base, const std::vector<std::string>& classes) {
  const auto number = [](std::uint64_t value) { return fmt::format("{}", value); };
  ranks::RankFacts facts = {{"version", FEEDRACE_VERSION},
                            {"world_size", number(base.world_size)},
                            {"seed", number(base.seed)},
                            {"shuffle", to_string(base.shuffle)},
                            {"shuffle_chunk", number(base.chunk_samples)},
                            {"shuffle_window", number(base.window_samples)},
                            {"batch_size", number(base.batch_size)},
                            {"last_batch", base.last_batch},
                            {"epoch_samples", number(base.epoch_samples)},
                            {"number of data sets", number(base.sets.size())}};
  for (std::size_t i = 0; i < base.sets.size(); ++i) {
    const order::SetState& set = base.sets[i];
    const std::string of = base.sets.size() > 1 ? fmt::format(" of set {}", i) : "";
    facts.emplace_back("number of samples" + of, number(set.sample_count));
    // Ranks may read the same samples from a folder here and from shards there.
    const bool has_keys = !set.key_fingerprint.empty();
    facts.emplace_back("fingerprint" + of, has_keys ? set.key_fingerprint : set.fingerprint);
    facts.emplace_back("subset" + of, set.subset);
    facts.emplace_back("repeat" + of, number(set.repeat));
    facts.emplace_back("weight" + of, fmt::format("{}", set.weight));
  }
  facts.emplace_back("classes", number(classes.size()));
  facts.emplace_back("pipeline", base.pipeline);
  facts.emplace_back("on_error", base.on_error);
  return facts;
}

bool is_mix_changed(const order::State& saved, const order::State& current) {
  if (current.sets.empty() || current.sets[0].weight == 0) return false;
  return !std::equal(saved.sets.begin(), saved.sets.end(), current.sets.begin(), current.sets.end(),
                     [](const order::SetState& a, const order::SetState& b) {
                       return a.name == b.name && a.weight == b.weight;
                     }) ||
         saved.epoch_samples != current.epoch_samples;
}

order::State::Origin origin_of_change(const order::State& saved, const order::State& current) {
  order::State::Origin origin{saved.epoch, saved.position, {}};
  for (const order::SetState& set : current.sets) {
    const auto before =
        std::find_if(saved.sets.begin(), saved.sets.end(),
                     [&](const order::SetState& old) { return old.name == set.name; });
    origin.set_positions.push_back(before == saved.sets.end() ? 0 : before->position);
  }
  return origin;
}

}  // namespace feedrace::pipeline
