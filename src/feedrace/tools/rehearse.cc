// SPDX-License-Identifier: Apache-2.0
// feedrace rehearse PATH: stops and goes on again and again, on the user's own data, and compares
// every sample with an unbroken run.

#include <cstdint>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/load_options.h"
#include "feedrace/tools/progress.h"
#include "feedrace/tools/rehearsal.h"
#include "feedrace/tools/sample_flag.h"

namespace feedrace::tools {
namespace {

struct Options {
  LoadOptions load;
  std::uint64_t runs = 20;
  std::uint64_t seed = 0;
  std::uint64_t batches = 50;
  std::uint64_t epoch = 0;
  bool as_json = false;
};

nlohmann::ordered_json place_json(const std::optional<PlaceDigest>& place,
                                  const formats::Dataset& dataset) {
  if (!place) return nullptr;
  nlohmann::ordered_json json = {{"sample", place->sample}};
  put_text(json, "key", dataset.key(place->sample));
  json["flag"] = name_of(place->flag);
  json["label"] = place->label;
  json["digest"] = fmt::format("{:016x}", place->pixels);
  return json;
}

std::string again_text(const RehearsalDifference& difference, std::uint64_t seed) {
  return fmt::format("the same options with --runs 1 --seed-of-schedule {}", seed + difference.run);
}

nlohmann::ordered_json report(const Rehearsal& rehearsal, const Options& options,
                              std::uint64_t runs) {
  nlohmann::ordered_json json = {
      {"epoch", rehearsal.epoch()},       {"runs", runs},
      {"batches", rehearsal.batches()},   {"stops", rehearsal.stops()},
      {"steps", rehearsal.steps()},       {"global_batch", rehearsal.global_batch()},
      {"samples", rehearsal.places()},    {"backends", rehearsal.backends()},
      {"seed_of_schedule", options.seed}, {"difference", nullptr}};
  const auto& difference = rehearsal.difference();
  if (!difference) return json;
  json["difference"] = {{"run", difference->run},
                        {"position", difference->position},
                        {"problem", difference->problem},
                        {"expected", place_json(difference->expected, rehearsal.dataset())},
                        {"found", place_json(difference->found, rehearsal.dataset())},
                        {"schedule", to_text(difference->schedule)},
                        {"again", again_text(*difference, options.seed)}};
  return json;
}

void print_text(const Rehearsal& rehearsal, const Options& options, std::uint64_t runs) {
  fmt::print("rehearse  {} run{}, {} batches, {} stops: ", runs, runs == 1 ? "" : "s",
             with_commas(rehearsal.batches()), with_commas(rehearsal.stops()));
  const auto& difference = rehearsal.difference();
  if (!difference) {
    fmt::print("every sample at its place, byte for byte\n");
    fmt::print("compared  {} samples of epoch {} in {} steps of {}, by {}\n",
               with_commas(rehearsal.places()), rehearsal.epoch(), with_commas(rehearsal.steps()),
               with_commas(rehearsal.global_batch()), fmt::join(rehearsal.backends(), " and "));
    return;
  }
  const auto& place = difference->expected ? difference->expected : difference->found;
  fmt::print("run {} differs at position {} of epoch {}\n", difference->run, difference->position,
             rehearsal.epoch());
  if (place) {
    fmt::print("sample    {}, {}: {}\n", place->sample,
               printable(rehearsal.dataset().where(place->sample)), difference->problem);
  } else {
    fmt::print("problem   {}\n", difference->problem);
  }
  fmt::print("the run   {}\n", to_text(difference->schedule));
  fmt::print("again     {}\n", again_text(*difference, options.seed));
}

int run(const Options& options) {
  InterruptGuard interrupt;
  std::optional<InterruptGuard::Watch> watch;
  Progress progress("rehearse", 0);
  std::uint64_t loaded = 0;
  Rehearsal::Hooks hooks;
  hooks.watch = [&](Loader* loader) {
    watch.reset();
    if (loader != nullptr) watch.emplace(interrupt, *loader);
  };
  hooks.step = [&] { progress.update(++loaded); };
  Rehearsal rehearsal(options.load.make(), options.epoch, options.batches, hooks);
  warn(rehearsal.plan().warnings);
  std::uint64_t runs = 0;
  while (runs < options.runs && !rehearsal.difference()) {
    rehearsal.run(runs, options.seed + runs);
    ++runs;
  }
  if (options.as_json) {
    print_json(report(rehearsal, options, runs));
  } else {
    print_text(rehearsal, options, runs);
  }
  return rehearsal.difference() ? kBadData : kGood;
}

}  // namespace

void add_rehearse(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "rehearse",
      "Stop and go on at random, with other ranks, threads and back ends, and compare "
      "every sample with an unbroken run");
  options->load.add_to(*command);
  command->add_option("--runs", options->runs, "With stops")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  command->add_option("--seed-of-schedule", options->seed, "Of the stops, ranks and threads")
      ->check(whole_number(0, std::uint64_t{1} << 62))
      ->capture_default_str();
  command->add_option("--batches", options->batches, "Steps of the epoch to compare; 0: all")
      ->check(whole_number(0))
      ->capture_default_str();
  command->add_option("--epoch", options->epoch, "To compare")
      ->check(whole_number(0))
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
