// SPDX-License-Identifier: Apache-2.0
// feedrace plan PATH: what a loader would do, before anything is read.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>

#include "feedrace/loader.h"
#include "feedrace/pipeline/open_sets.h"
#include "feedrace/tools/check_epoch.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/load_options.h"
#include "feedrace/tools/order_map.h"
#include "feedrace/tools/show_order.h"

namespace feedrace::tools {
namespace {

struct Options {
  LoadOptions load;
  std::uint64_t epoch = 0;
  StepRange steps;
  bool shows_order = false;
  bool checks_epoch = false;
  bool as_json = false;
};

int print_plan(const Plan& plan, bool as_json) {
  const std::string text = as_json ? plan.to_json() + "\n" : plan.to_text();
  std::fputs(text.c_str(), stdout);
  return kGood;
}

int print_order(const Options& options, const Plan& plan, const OrderView& view) {
  auto json = nlohmann::ordered_json::parse(plan.to_json());
  std::string text = plan.to_text();
  // Before the long part, as a step that the epoch does not have is an error.
  if (options.shows_order && options.as_json) {
    json["order_samples"] = order_json(view, options.steps);
    json["order_map"] = make_order_map(view).counts;
  } else if (options.shows_order) {
    text += "\n" + order_text(view, options.steps) + "\n" + to_text(make_order_map(view));
  }
  bool is_good = true;
  if (options.checks_epoch) {
    const order::Coverage coverage = count_epoch(view);
    json["coverage"] = coverage_json(view, coverage);
    text += (options.shows_order ? "\n" : "") + coverage_text(view, coverage);
    warn(coverage.problems);
    is_good = coverage.problems.empty();
  }
  if (options.as_json) {
    print_json(json);
  } else {
    std::fputs(text.c_str(), stdout);
  }
  return is_good ? kGood : kBadData;
}

int run(const Options& options) {
  LoaderOptions loader_options = options.load.make();
  // All ranks are shown, and none is waited for.
  if (loader_options.world_size && !loader_options.rank) loader_options.rank = 0;
  if (loader_options.rank_check) warn({"plan waits for no other rank; --rank-check is left out"});
  loader_options.rank_check.reset();
  if (!options.shows_order && !options.checks_epoch) {
    return print_plan(Loader(loader_options).plan(), options.as_json);
  }
  pipeline::open_once(loader_options);
  const Loader loader(loader_options);
  return print_order(options, loader.plan(),
                     view_order(loader_options, loader.plan(), options.epoch));
}

}  // namespace

void add_plan(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "plan", "Show split, memory and paths of a loader, and who gets which sample when");
  options->load.add_to(*command);
  options->load.add_device_to(*command);
  command->add_flag("--show-order", options->shows_order,
                    "Print the samples of a step for every rank, and a map of the epoch's order");
  command->add_flag("--check-epoch", options->checks_epoch,
                    "Count what all ranks get in an epoch: every sample as often as it should");
  command->add_option("--epoch", options->epoch, "To show or check")
      ->check(whole_number(0))
      ->capture_default_str();
  command->add_option("--step", options->steps.first, "The first to show")
      ->check(whole_number(0))
      ->capture_default_str();
  command->add_option("--steps", options->steps.count, "How many to show")
      ->check(whole_number(1))
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
