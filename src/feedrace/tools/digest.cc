// SPDX-License-Identifier: Apache-2.0
// feedrace digest PATH: what a training loop would get, as digests, so that two runs can be
// compared; stops and goes on by a state file as a training run would.

#include <errno.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/loader.h"
#include "feedrace/order/state.h"
#include "feedrace/pipeline/input_files.h"
#include "feedrace/tools/batch_digest.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/load_options.h"
#include "feedrace/tools/sample_flag.h"
#include "feedrace/tools/state_file.h"

namespace feedrace::tools {
namespace {

struct Options {
  LoadOptions load;
  StateFile state;
  std::uint64_t batches = 0;
  std::uint64_t epochs = 0;  // 0: one, unless batches are counted.
  std::uint64_t epoch = 0;
  std::uint64_t sleep_ms = 0;
};

nlohmann::ordered_json describe(const Batch& batch, const Plan& plan) {
  const std::vector<PlaceDigest> places = digest_places(batch);
  nlohmann::ordered_json json = {{"epoch", batch.epoch},
                                 {"step", batch.step},
                                 {"position", batch.position},
                                 {"rank", plan.rank},
                                 {"world_size", plan.world_size}};
  for (const char* list : {"samples", "flags", "labels", "digests"}) {
    json[list] = nlohmann::ordered_json::array();
  }
  for (const PlaceDigest& place : places) {
    json["samples"].push_back(place.sample);
    json["flags"].push_back(name_of(place.flag));
    json["labels"].push_back(place.label);
    json["digests"].push_back(fmt::format("{:016x}", place.pixels));
  }
  json["digest"] = fmt::format("{:016x}", digest_all(places));
  return json;
}

/// Nothing may count as delivered that did not arrive.
void print_line(const nlohmann::ordered_json& json) {
  print_json(json, /*indent=*/-1);
  if (std::fflush(stdout) == 0) return;
  throw Error(ErrorCode::kIo, errno_text("standard output: write", errno));
}

/// Until the time is over or the user wants to end.
void wait(std::uint64_t milliseconds, const InterruptGuard& interrupt) {
  constexpr std::chrono::milliseconds kSlice{20};
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (!interrupt.is_interrupted()) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= std::chrono::nanoseconds(0)) return;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, kSlice));
  }
}

int run(const Options& options) {
  InterruptGuard interrupt;
  const LoaderOptions made = options.load.make();
  Loader loader(made);
  formats::check_output("--state", options.state.path,
                        pipeline::input_files(made, &loader.dataset()), order::is_state_text);
  const InterruptGuard::Watch watch(interrupt, loader);
  warn(loader.plan().warnings);
  const bool goes_on = !options.state.path.empty() && options.state.load_into(loader);
  if (!goes_on) loader.set_epoch(options.epoch);
  // Counted from the first epoch of all, so that a run that was stopped ends where it would have.
  const std::uint64_t epochs = options.epochs == 0 && options.batches == 0 ? 1 : options.epochs;
  const std::uint64_t end = epochs == 0 ? ~std::uint64_t{0} : options.epoch + epochs;
  std::uint64_t printed = 0;
  while (loader.epoch() < end && (options.batches == 0 || printed < options.batches)) {
    const auto batch = loader.next();
    if (!batch) continue;
    print_line(describe(*batch, loader.plan()));
    ++printed;
    if (!options.state.path.empty()) options.state.write(loader.state());
    wait(options.sleep_ms, interrupt);
  }
  warn(loader.stats().fallbacks);
  warn(loader.stats().complaints);
  return kGood;
}

}  // namespace

void add_digest(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "digest",
      "Load batches and print a line of JSON with digests for each; two runs that print "
      "the same got the same");
  options->load.add_to(*command);
  options->state.add_to(*command,
                        "Go on from the state in this file, if there is one, and save the state in "
                        "it after each batch");
  command
      ->add_option("--batches", options->batches, "Stop after so many in this run; 0: by --epochs")
      ->check(whole_number(0))
      ->capture_default_str();
  command
      ->add_option("--epochs", options->epochs,
                   "Stop when so many epochs are through, those before a stop included; 1, unless "
                   "--batches is given")
      ->check(whole_number(1));
  command->add_option("--epoch", options->epoch, "The first one of all")
      ->check(whole_number(0))
      ->capture_default_str();
  command->add_option("--sleep-ms", options->sleep_ms, "After each batch, as a training step takes")
      ->check(whole_number(0, 3'600'000))
      ->capture_default_str();
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
