// SPDX-License-Identifier: Apache-2.0
// What may differ between a saved state and the loader that goes on from it, and what may not.

#include <algorithm>
#include <cstddef>
#include <tuple>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/order/state.h"
#include "feedrace/order/state_parts.h"

namespace feedrace::order {
namespace {

/// Far beyond any training; a number behind it is an edited or negative one.
constexpr std::uint64_t kEpochLimit = std::uint64_t{1} << 40;

struct SetPair {
  const SetState* saved = nullptr;
  const SetState* current = nullptr;
  bool counts_told = false;  ///< An error says already that the numbers of samples differ.
};

bool is_weighted(const std::vector<SetState>& sets) {
  return !sets.empty() &&
         std::all_of(sets.begin(), sets.end(), [](const SetState& set) { return set.weight > 0; });
}

std::vector<std::string> names_of(const std::vector<SetState>& sets) {
  std::vector<std::string> names;
  names.reserve(sets.size());
  for (const SetState& set : sets) names.push_back(set.name);
  return names;
}

std::string shuffle_phrase(const State& state) {
  if (state.shuffle != Shuffle::kWindow) return to_string(state.shuffle);
  return fmt::format("window (chunks of {}, windows of {} samples)", state.chunk_samples,
                     state.window_samples);
}

std::string weight_phrase(double weight) {
  return weight > 0 ? fmt::format("{}", weight) : std::string("none");
}

class Comparison {
 public:
  Comparison(const State& saved, const State& current, bool accept_changed_data)
      : saved_(saved),
        current_(current),
        accept_changed_data_(accept_changed_data),
        both_weighted_(is_weighted(saved.sets) && is_weighted(current.sets)),
        several_(std::max(saved.sets.size(), current.sets.size()) > 1) {}

  StateDifferences run() {
    compare_names();
    std::vector<SetPair> pairs = match();
    for (SetPair& pair : pairs) compare_data(pair);
    compare_order(pairs);
    for (const SetPair& pair : pairs) compare_choice(pair);
    for (const SetPair& pair : pairs) compare_weight(pair);
    check_ranges();
    compare_delivery();
    return std::move(found_);
  }

 private:
  std::string prefix(const SetState& set) const {
    return several_ ? fmt::format("set {}: ", printable(set.name)) : std::string();
  }

  void error(const std::string& text) { found_.errors.push_back(text); }
  void note(const std::string& text) { found_.notes.push_back(text); }

  /// A setting that must be as it was.
  void require_same(const std::string& where, const char* name, const std::string& then,
                    const std::string& now) {
    if (then == now) return;
    error(fmt::format("{}{} was {} and is {}; give {} {}, or begin anew without the state", where,
                      name, printable(then), printable(now), name, printable(then)));
  }

  /// Sets by name, each saved one at most once. A lone set is compared whatever its name.
  std::vector<SetPair> match() const {
    std::vector<SetPair> pairs;
    if (saved_.sets.size() == 1 && current_.sets.size() == 1) {
      return {{&saved_.sets[0], &current_.sets[0]}};
    }
    std::vector<bool> is_taken(saved_.sets.size());
    for (const SetState& current : current_.sets) {
      for (std::size_t i = 0; i < saved_.sets.size(); ++i) {
        if (is_taken[i] || saved_.sets[i].name != current.name) continue;
        is_taken[i] = true;
        pairs.push_back({&saved_.sets[i], &current});
        break;
      }
    }
    return pairs;
  }

  void compare_names() {
    const std::vector<std::string> then = names_of(saved_.sets);
    const std::vector<std::string> now = names_of(current_.sets);
    if (then == now || (then.size() == 1 && now.size() == 1)) return;  // A lone one may move.
    if (both_weighted_) {
      for (const std::string& name : without(now, then)) {
        note(fmt::format("set {} is new, from here on", printable(name)));
      }
      for (const std::string& name : without(then, now)) {
        note(fmt::format("set {} is gone, from here on", printable(name)));
      }
      if (std::is_permutation(then.begin(), then.end(), now.begin(), now.end())) {
        note("the sets are given in another order, from here on");
      }
      return;
    }
    other_sets_ = true;
    if (then.size() != now.size()) {
      error(
          fmt::format("the number of sets was {} ({}) and is {} ({}); give the same sets, or begin "
                      "anew without the state",
                      then.size(), some_of(then), now.size(), some_of(now)));
      return;
    }
    const auto [was, is] = std::mismatch(then.begin(), then.end(), now.begin());
    error(
        fmt::format("set {} was {} and is {}; give the same sets in the same order, or begin anew "
                    "without the state",
                    was - then.begin() + 1, printable(*was), printable(*is)));
  }

  static std::vector<std::string> without(const std::vector<std::string>& names,
                                          std::vector<std::string> taken) {
    std::vector<std::string> rest;
    for (const std::string& name : names) {
      const auto found = std::find(taken.begin(), taken.end(), name);
      if (found == taken.end()) {
        rest.push_back(name);
      } else {
        taken.erase(found);
      }
    }
    return rest;
  }

  void compare_data(SetPair& pair) {
    const SetState& saved = *pair.saved;
    const SetState& current = *pair.current;
    const bool same_count = saved.sample_count == current.sample_count;
    if (same_count && saved.fingerprint == current.fingerprint) {
      compare_parts(pair);
    } else if (same_count && !saved.key_fingerprint.empty() &&
               saved.key_fingerprint == current.key_fingerprint) {
      compare_layout(pair);
    } else if (same_count && !saved.key_set_fingerprint.empty() &&
               saved.key_set_fingerprint == current.key_set_fingerprint) {
      report_data(pair, "the same keys, but in another order or with other labels",
                  "number the samples as the old data set does (number_like=OLD)");
    } else {
      report_other_data(pair);
    }
  }

  /// Of data with the same keys and labels in the same order, but another fingerprint.
  void compare_layout(SetPair& pair) {
    const SetState& saved = *pair.saved;
    const SetState& current = *pair.current;
    // The same shards or folders with another content are no other layout.
    const bool alike = same_cut(saved.parts, current.parts);
    const std::string changed = alike ? describe_changed(saved.parts, current.parts) : "";
    if (!changed.empty()) {
      report_data(pair, changed, "put the old file back");
      return;
    }
    note(fmt::format(
        "{}the same samples in the same order, laid out differently (fingerprint {} then, {} now); "
        "goes on",
        prefix(current), printable(saved.fingerprint), printable(current.fingerprint)));
  }

  /// The fingerprint is of keys, sizes and labels; only digests see that bytes differ.
  void compare_parts(SetPair& pair) {
    const std::vector<StatePart>& then = pair.saved->parts;
    const std::vector<StatePart>& now = pair.current->parts;
    if (then.empty() || now.empty()) return;
    const auto counts_match = [](const StatePart& a, const StatePart& b) {
      return a.count == b.count;
    };
    if (!std::equal(then.begin(), then.end(), now.begin(), now.end(), counts_match)) {
      note(fmt::format("{}the same samples in the same order, in other shards or folders; goes on",
                       prefix(*pair.current)));
      return;
    }
    const std::string changed = describe_changed(then, now);
    if (!changed.empty()) report_data(pair, changed, "put the old file back");
  }

  void report_other_data(SetPair& pair) {
    const SetState& saved = *pair.saved;
    const SetState& current = *pair.current;
    std::string what = fmt::format(
        "another data set: {} samples, fingerprint {} then, {} samples, fingerprint {} now",
        with_commas(saved.sample_count), printable(saved.fingerprint),
        with_commas(current.sample_count), printable(current.fingerprint));
    const std::string parts = describe_parts(saved.parts, current.parts);
    if (!parts.empty()) what += fmt::format(" ({})", parts);
    report_data(pair, what, "give the data that the state was saved with");
  }

  /// Data that differ: an error, or a note where they are accepted and as many as before.
  void report_data(SetPair& pair, const std::string& what, const std::string& fix) {
    const bool same_counts = pair.saved->sample_count == pair.current->sample_count &&
                             pair.saved->selected_count == pair.current->selected_count;
    if (same_counts && accept_changed_data_) {
      note(fmt::format("{}{}; accepted, goes on", prefix(*pair.current), what));
      return;
    }
    pair.counts_told = !same_counts;
    error(fmt::format("{}{}; {}, or {}", prefix(*pair.current), what, fix,
                      same_counts ? "accept changed data" : "begin anew without the state"));
  }

  void compare_order(const std::vector<SetPair>& pairs) {
    require_same("", "seed", std::to_string(saved_.seed), std::to_string(current_.seed));
    require_same("", "shuffle", shuffle_phrase(saved_), shuffle_phrase(current_));
    // The length follows from the sets: where they differ, that is what is told.
    const bool sets_differ = std::any_of(pairs.begin(), pairs.end(), [](const SetPair& pair) {
      return pair.saved->repeat != pair.current->repeat ||
             pair.saved->selected_count != pair.current->selected_count;
    });
    if (sets_differ || other_sets_) return;
    if (both_weighted_) {
      note_setting("epoch_samples", std::to_string(saved_.epoch_samples),
                   std::to_string(current_.epoch_samples));
      return;
    }
    require_same("", "epoch_samples", std::to_string(saved_.epoch_samples),
                 std::to_string(current_.epoch_samples));
  }

  void compare_choice(const SetPair& pair) {
    const SetState& saved = *pair.saved;
    const SetState& current = *pair.current;
    require_same(prefix(current), "subset", saved.subset, current.subset);
    if (saved.subset == current.subset && saved.selected_count != current.selected_count &&
        !pair.counts_told) {
      error(fmt::format(
          "{}subset {} had {} samples and has {}; give the data and the subset that the "
          "state was saved with, or begin anew without the state",
          prefix(current), printable(current.subset), with_commas(saved.selected_count),
          with_commas(current.selected_count)));
    }
    require_same(prefix(current), "repeat", std::to_string(saved.repeat),
                 std::to_string(current.repeat));
  }

  void compare_weight(const SetPair& pair) {
    const double then = pair.saved->weight;
    const double now = pair.current->weight;
    if (then == now) return;
    if (both_weighted_) {
      note(fmt::format("weight of set {} was {} and is {}, from here on",
                       printable(pair.current->name), then, now));
      return;
    }
    require_same(prefix(*pair.current), "weight", weight_phrase(then), weight_phrase(now));
  }

  void check_ranges() {
    constexpr const char* kFix =
        "the state was edited, give it as it was saved, or begin anew without it";
    if (saved_.position > saved_.epoch_samples) {
      error(fmt::format("position {} is behind the end of the epoch, {} samples; {}",
                        saved_.position, saved_.epoch_samples, kFix));
    }
    if (saved_.epoch >= kEpochLimit) {
      error(fmt::format("epoch {} is not below 2^40; {}", saved_.epoch, kFix));
    }
    if (std::tie(saved_.origin.epoch, saved_.origin.position) >
        std::tie(saved_.epoch, saved_.position)) {
      error(fmt::format("origin, epoch {} position {}, is behind epoch {} position {}; {}",
                        saved_.origin.epoch, saved_.origin.position, saved_.epoch, saved_.position,
                        kFix));
    }
  }

  void compare_delivery() {
    note_setting("pipeline", saved_.pipeline, current_.pipeline);
    note_setting("on_error", saved_.on_error, current_.on_error);
    note_setting("batch_size", std::to_string(saved_.batch_size),
                 std::to_string(current_.batch_size));
    note_setting("world_size", std::to_string(saved_.world_size),
                 std::to_string(current_.world_size));
    note_setting("last_batch", saved_.last_batch, current_.last_batch);
  }

  void note_setting(const char* name, const std::string& then, const std::string& now) {
    if (then == now) return;
    note(fmt::format("{} was {} and is {}", name, printable(then), printable(now)));
  }

  const State& saved_;
  const State& current_;
  const bool accept_changed_data_;
  const bool both_weighted_;
  const bool several_;
  bool other_sets_ = false;  ///< An error says already that the sets are not the same.
  StateDifferences found_;
};

}  // namespace

StateDifferences compare(const State& saved, const State& current, bool accept_changed_data) {
  return Comparison(saved, current, accept_changed_data).run();
}

}  // namespace feedrace::order
