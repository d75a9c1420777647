// SPDX-License-Identifier: Apache-2.0
// feedrace bench ceilings PATH: what each part of the way gives by itself, so that the best
// possible gain is known before anybody spends money.

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/diagnose/io_paths.h"
#include "feedrace/tools/ceilings.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/load_options.h"
#include "feedrace/tools/machine.h"

namespace feedrace::tools {
namespace {

struct Options {
  LoadOptions load;
  CeilingsJob job;
  bool as_json = false;
};

nlohmann::ordered_json to_json(const std::vector<MeasuredPart>& parts, const Plan& plan,
                               const std::string& path) {
  nlohmann::ordered_json ceilings;
  for (const MeasuredPart& part : parts) {
    nlohmann::ordered_json one = {{"images_per_second", nullptr}, {"of", part.of}};
    if (part.rates.empty()) {
      one["reason"] = part.reason;
    } else {
      one["images_per_second"] = diagnose::quantile_of(part.rates, 0.5);
      one["spread"] = {diagnose::quantile_of(part.rates, 0), diagnose::quantile_of(part.rates, 1)};
    }
    ceilings[part.name] = std::move(one);
  }
  const Machine machine = describe_machine(path);
  return {{"path", printable(path)},
          {"ceilings", std::move(ceilings)},
          {"settings",
           {{"batch_size", plan.batch_size},
            {"decode_threads", plan.decode_threads},
            {"backend", plan.backend},
            {"pipeline", plan.pipeline}}},
          {"machine",
           {{"cpu", machine.cpu},
            {"usable_cores", plan.usable_cores},
            {"kernel", machine.kernel},
            {"file_system", machine.file_system},
            {"version", FEEDRACE_VERSION}}}};
}

void print_text(const std::vector<MeasuredPart>& parts) {
  fmt::print("images/s, median of slices of the time (least to most)\n");
  for (const MeasuredPart& part : parts) {
    if (part.rates.empty()) {
      fmt::print("{:<16}n/a: {}\n", part.name, part.reason);
      continue;
    }
    fmt::print("{:<16}{:>9.0f} ({:.0f} to {:.0f}): {}\n", part.name,
               diagnose::quantile_of(part.rates, 0.5), diagnose::quantile_of(part.rates, 0),
               diagnose::quantile_of(part.rates, 1), part.of);
  }
}

int run(Options& options) {
  const InterruptGuard interrupt;
  options.job.loader = options.load.make();
  const Plan plan = Loader(options.job.loader).plan();
  const auto parts = measure_ceilings(options.job);
  if (options.as_json) {
    print_json(to_json(parts, plan, options.load.data.sources.front()));
  } else {
    print_text(parts);
  }
  return kGood;
}

}  // namespace

void add_bench_ceilings(CLI::App& bench) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "ceilings", "What storage, decoding, augmentation, a copy and the whole give by themselves");
  options->load.add_to(*command);
  options->load.add_device_to(*command);
  command->add_option("--seconds", options->job.seconds, "How long, each part")
      ->check(finite_number(0.05, 1e9))
      ->capture_default_str();
  command
      ->add_option("--limit", options->job.picture_limit,
                   "Pictures that are kept in memory, spread over all")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  command->add_option(
      "--scratch", options->job.scratch,
      "A folder on the drive of the data: a shard of --limit files is written there, "
      "measured, and deleted");
  command
      ->add_option(
          "--consumer", options->job.consumer,
          "What the training loop does by itself, images/s, as loader.cached() measured it")
      ->check(finite_number(1e-9, 1e12));
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
