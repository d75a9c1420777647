// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/rehearsal.h"

#include <algorithm>
#include <random>
#include <utility>

#include <fmt/format.h>

#include "feedrace/error.h"
#include "feedrace/pipeline/open_sets.h"

namespace feedrace::tools {
namespace {

constexpr std::uint64_t kMostStops = 6;
constexpr std::uint64_t kMostRanks = 16;  // They run one after another; more show nothing new.
constexpr std::uint64_t kMostThreads = 8;
constexpr std::uint64_t kMostAhead = 4;

using Random = std::mt19937_64;

/// In [0, count). By hand: what the standard's distributions give differs between libraries.
std::uint64_t below(std::uint64_t count, Random& random) { return random() % count; }

/// The world sizes that share a global batch evenly.
std::vector<std::uint64_t> world_sizes(std::uint64_t global_batch) {
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = 1; size <= std::min(kMostRanks, global_batch); ++size) {
    if (global_batch % size == 0) sizes.push_back(size);
  }
  return sizes;
}

/// What a rehearsal leaves out: lists and budgets are of the run that it rehearses, and ranks that
/// come one after another can't wait for each other.
LoaderOptions for_rehearsal(LoaderOptions options) {
  options.rank_check.reset();
  options.quarantine_file.clear();
  options.error_budget = ~std::uint64_t{0};
  options.error_budget_share = 1;
  options.fallback = Fallback::kWarn;
  return options;
}

}  // namespace

std::string to_text(const std::vector<RehearsedStretch>& schedule) {
  std::string text;
  for (const RehearsedStretch& stretch : schedule) {
    text +=
        fmt::format("{}steps {}-{} on {} rank{}, {} thread{}, prefetch {}, {}",
                    text.empty() ? "" : "; then ", stretch.begin, stretch.end - 1,
                    stretch.world_size, stretch.world_size == 1 ? "" : "s", stretch.thread_count,
                    stretch.thread_count == 1 ? "" : "s", stretch.prefetch_factor, stretch.backend);
  }
  return text;
}

Rehearsal::Rehearsal(LoaderOptions options, std::uint64_t epoch, std::uint64_t steps, Hooks hooks)
    : options_(for_rehearsal(std::move(options))),
      hooks_(std::move(hooks)),
      epoch_(epoch),
      steps_(steps) {
  pipeline::open_once(options_);
  plan_ = Loader(options_).plan();
  dataset_ = pipeline::open_sets(options_).dataset;
  global_batch_ = plan_.batch_size * plan_.world_size;
  steps_ = steps_ == 0 ? plan_.steps : std::min(steps_, plan_.steps);
  // Short batches of any number of ranks: their padding is not compared.
  const bool may_pad = plan_.last_batch == LastBatch::kPartial;
  options_.last_batch = may_pad ? LastBatch::kPad : plan_.last_batch;
  load_unbroken();
}

LoaderOptions Rehearsal::options_of(const RehearsedStretch& stretch, std::uint64_t rank) const {
  LoaderOptions options = options_;
  options.rank = rank;
  options.world_size = stretch.world_size;
  options.batch_size = static_cast<std::size_t>(global_batch_ / stretch.world_size);
  options.thread_count = stretch.thread_count;
  options.prefetch_factor = stretch.prefetch_factor;
  options.backend = stretch.backend;
  return options;
}

/// Tells the hooks of a loader while it lives.
class Rehearsal::Watched {
 public:
  Watched(const Hooks& hooks, Loader& loader) : hooks_(hooks) { hooks_.watch(&loader); }
  ~Watched() { hooks_.watch(nullptr); }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;

 private:
  const Hooks& hooks_;
};

void Rehearsal::load_unbroken() {
  Loader loader(options_of({0, steps_, 1, 1, 1, "buffered"}, 0));
  const Watched watched(hooks_, loader);
  loader.set_epoch(epoch_);
  for (std::uint64_t step = 0; step < steps_; ++step) {
    const std::optional<Batch> batch = loader.next();
    for (const PlaceDigest& place : digest_places(*batch)) {
      if (place.flag != SampleFlag::kPadded) expected_.push_back(place);
    }
    hooks_.step();
  }
}

std::vector<RehearsedStretch> Rehearsal::make_schedule(std::uint64_t seed) const {
  Random random(seed);
  std::set<std::uint64_t> borders = {0, steps_};
  const std::uint64_t stops = 1 + below(kMostStops, random);
  for (std::uint64_t stop = 0; stop < stops; ++stop) borders.insert(below(steps_, random));
  const std::vector<std::uint64_t> sizes = world_sizes(global_batch_);
  std::vector<RehearsedStretch> schedule;
  for (auto begin = borders.begin(); std::next(begin) != borders.end(); ++begin) {
    RehearsedStretch stretch;
    stretch.begin = *begin;
    stretch.end = *std::next(begin);
    stretch.world_size = sizes[below(sizes.size(), random)];
    stretch.thread_count = static_cast<std::size_t>(1 + below(kMostThreads, random));
    stretch.prefetch_factor = static_cast<std::size_t>(1 + below(kMostAhead, random));
    stretch.backend = below(2, random) == 0 ? "auto" : "buffered";
    schedule.push_back(std::move(stretch));
  }
  return schedule;
}

bool Rehearsal::differs(std::uint64_t position, std::optional<PlaceDigest> found,
                        std::string problem) {
  difference_.emplace();
  difference_->position = position;
  if (position < expected_.size()) difference_->expected = expected_[position];
  difference_->found = found;
  difference_->problem = std::move(problem);
  return false;
}

/// Compares one rank's part of a step; `first` is the position of its first place.
bool Rehearsal::compare(std::uint64_t first, const std::vector<PlaceDigest>& found,
                        std::vector<bool>& has_come) {
  for (std::uint64_t i = 0; i < found.size(); ++i) {
    const PlaceDigest& place = found[i];
    if (place.flag == SampleFlag::kPadded) continue;
    const std::uint64_t position = first + i;
    if (position >= expected_.size()) {
      return differs(position, place, "the unbroken run has no such position");
    }
    if (has_come[position]) return differs(position, place, "it came a second time");
    has_come[position] = true;
    const PlaceDigest& expected = expected_[position];
    if (place == expected) continue;
    if (place.sample != expected.sample) {
      return differs(position, place,
                     fmt::format("sample {} came instead of {}", place.sample, expected.sample));
    }
    return differs(position, place,
                   place.pixels != expected.pixels ? "its pixels differ" : "its label differs");
  }
  return true;
}

bool Rehearsal::load_stretch(const RehearsedStretch& stretch, std::string& state,
                             std::vector<bool>& has_come) {
  std::string state_behind;
  for (std::uint64_t rank = 0; rank < stretch.world_size; ++rank) {
    Loader loader(options_of(stretch, rank));
    const Watched watched(hooks_, loader);
    backends_.insert(loader.plan().backend);
    if (state.empty()) {
      loader.set_epoch(epoch_);
    } else {
      loader.load_state(state);
    }
    bool is_same = true;
    for (std::uint64_t step = stretch.begin; step < stretch.end && is_same; ++step) {
      const std::optional<Batch> batch = loader.next();
      if (!batch || batch->epoch != epoch_) {
        is_same = differs(step * global_batch_, {}, "the epoch ended there");
        break;
      }
      is_same = compare(batch->position + rank * batch->size(), digest_places(*batch), has_come);
      ++batches_;
      hooks_.step();
    }
    state_behind = loader.state();
    if (!is_same) return false;
  }
  state = std::move(state_behind);
  return true;
}

bool Rehearsal::run(std::uint64_t number, std::uint64_t seed) {
  const std::vector<RehearsedStretch> schedule = make_schedule(seed);
  std::string state;
  std::vector<bool> has_come(expected_.size());
  bool is_same = std::all_of(schedule.begin(), schedule.end(), [&](const auto& stretch) {
    return load_stretch(stretch, state, has_come);
  });
  stops_ += schedule.size() - 1;
  if (is_same) {
    const auto missing = std::find(has_come.begin(), has_come.end(), false);
    if (missing == has_come.end()) return true;
    is_same = differs(static_cast<std::uint64_t>(missing - has_come.begin()), {}, "it never came");
  }
  difference_->run = number;
  difference_->schedule = schedule;
  return is_same;
}

}  // namespace feedrace::tools
