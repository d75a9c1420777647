// SPDX-License-Identifier: Apache-2.0
// feedrace plan PATH: what a loader would do, before anything is read.

#include <cstdio>
#include <memory>

#include "feedrace/loader.h"
#include "feedrace/tools/command.h"

namespace feedrace::tools {

void add_plan(CLI::App& app) {
  const auto options = std::make_shared<LoadOptions>();
  const auto as_json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand("plan", "Show split, memory and paths of a loader");
  options->add_to(*command);
  command->add_flag("--json", *as_json, "Print JSON");
  add_command(*command, [options, as_json] {
    const Loader loader(options->make());
    const std::string text = *as_json ? loader.plan().to_json() + "\n" : loader.plan().to_text();
    std::fputs(text.c_str(), stdout);
    return kGood;
  });
}

}  // namespace feedrace::tools
