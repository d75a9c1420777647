// SPDX-License-Identifier: Apache-2.0
// feedrace explain PATH: loads for some seconds as a training loop would, and says what limits.

#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/loader.h"
#include "feedrace/tools/ceilings_file.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/load_options.h"
#include "feedrace/tools/progress.h"
#include "feedrace/tools/whole_file.h"

namespace feedrace::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  LoadOptions load;
  double seconds = 10;
  double step_ms = 0;
  std::string ceilings;
  std::string dmon;
  bool as_json = false;
};

void load(Loader& loader, const Options& options) {
  Progress progress("images", 0);
  const std::chrono::duration<double, std::milli> step(options.step_ms);
  std::optional<Clock::time_point> start;
  std::uint64_t images = 0;
  while (true) {
    const std::optional<Batch> batch = loader.next();
    if (!batch) continue;  // The next epoch.
    if (!start) start = Clock::now();
    images += batch->size();
    const double seconds = std::chrono::duration<double>(Clock::now() - *start).count();
    progress.update(images, seconds / options.seconds);
    if (seconds >= options.seconds) return;
    if (options.step_ms > 0) std::this_thread::sleep_for(step);
  }
}

void print_text(const Verdict& verdict) {
  fmt::print("rate      {:.0f} images/s\n", verdict.images_per_second);
  fmt::print("verdict   {}\n", verdict.headline);
  for (const std::string& clause : verdict.evidence) fmt::print("evidence  {}\n", clause);
  for (const Ceiling& one : verdict.ceilings) {
    fmt::print("ceiling   {}: {}{:.0f} images/s ({})\n", one.part,
               one.is_at_least ? "at least " : "", one.images_per_second,
               one.is_measured ? "measured alone" : "from this run");
  }
  for (const Remedy& one : verdict.remedies) {
    fmt::print("remedy    {}", one.action);
    if (one.images_per_second) fmt::print(": about {:.0f} images/s", *one.images_per_second);
    if (!one.command.empty()) fmt::print(" ({})", one.command);
    fmt::print("\n");
  }
  for (const std::string& note : verdict.notes) fmt::print("note      {}\n", note);
}

std::optional<std::string> text_of(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return read_whole_text(path);
}

int run(const Options& options) {
  InterruptGuard interrupt;
  VerdictInput input;
  // Refused before time is spent.
  if (!options.ceilings.empty()) input.ceilings_json = read_ceilings_text(options.ceilings);
  Loader loader(options.load.make());
  const InterruptGuard::Watch watch(interrupt, loader);
  warn(loader.plan().warnings);
  load(loader, options);
  // It is being written while this runs.
  input.gpu_dmon = text_of(options.dmon);
  const Verdict verdict = loader.verdict(input);
  if (options.as_json) {
    print_json(nlohmann::ordered_json::parse(verdict.to_json()));
  } else {
    print_text(verdict);
  }
  return kGood;
}

}  // namespace

void add_explain(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "explain", "Load for some seconds, and say what limits, why, and what would change it");
  options->load.add_to(*command);
  options->load.add_device_to(*command);
  command->add_option("--seconds", options->seconds, "How long, from the first batch on")
      ->check(finite_number(0.001, 1e9))
      ->capture_default_str();
  command
      ->add_option("--step-ms", options->step_ms,
                   "What the training loop would take for a batch; it is slept")
      ->check(finite_number(0, 1e9))
      ->capture_default_str();
  command->add_option("--ceilings", options->ceilings,
                      "What bench ceilings PATH --json wrote: more gains can be predicted with it");
  command->add_option("--dmon", options->dmon,
                      "What nvidia-smi dmon -s u writes to while this runs: how busy the GPU was");
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
