// SPDX-License-Identifier: Apache-2.0
// feedrace index SHARDS: makes or refreshes the index ahead of training.

#include <chrono>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/shard_labels.h"
#include "feedrace/formats/webdataset.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/json_text.h"

namespace feedrace::tools {
namespace {

struct Options {
  DataOptions data;
  bool as_json = false;
};

int run(const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  formats::OpenOptions format = options.data.format;
  format.store_index = formats::StoreIndex::kMust;
  if (format.label_field == "none") format.label_field.clear();
  const auto set = formats::open_shards(options.data.sources, format);
  formats::require_named_labels(*set, format);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (options.as_json) {
    nlohmann::ordered_json json = {{"shards", set->shards().size()},
                                   {"samples", set->entry_count()},
                                   {"images", set->size()},
                                   {"fields", set->field_names()},
                                   {"labels", set->label_source()},
                                   {"fingerprint", set->fingerprint()},
                                   {"max_image_bytes", set->max_image_bytes()},
                                   {"mean_image_bytes", set->mean_image_bytes()},
                                   {"seconds", seconds},
                                   {"warnings", set->warnings()}};
    put_text(json, "index", set->index_path());
    print_json(json);
    return kGood;
  }
  for (const std::string& warning : set->warnings()) note(warning);
  std::string names;
  for (const std::string& name : set->field_names()) names += " " + printable(name);
  fmt::print(
      "{} samples with an image of {} in {}; fields:{}; labels: {}; fingerprint {}; {:.2f} s\n"
      "index: {}\n",
      with_commas(set->size()), with_commas(set->entry_count()),
      formats::counted(set->shards().size(), "shard"), names, set->label_source(),
      set->fingerprint(), seconds, printable(set->index_path()));
  return kGood;
}

}  // namespace

void add_index(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("index", "Make or refresh the index of tar shards");
  options->data.add_to(*command);
  command->add_option("--threads", options->data.format.thread_count,
                      "Threads that read headers; 0: one for each usable core");
  command->add_flag("--rebuild", options->data.format.rebuild_index,
                    "Make it anew even if the stored one fits");
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
