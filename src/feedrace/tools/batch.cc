// SPDX-License-Identifier: Apache-2.0
// feedrace batch PATH --out FOLDER: writes one batch as a training loop would get it.

#include <errno.h>
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/loader.h"
#include "feedrace/pipeline/input_files.h"
#include "feedrace/tools/array_file.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/load_options.h"
#include "feedrace/tools/sample_flag.h"
#include "feedrace/tools/state_file.h"

namespace feedrace::tools {
namespace {

struct Options {
  LoadOptions load;
  StateFile state;
  std::string out;
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;
};

nlohmann::ordered_json describe(const Batch& batch, const formats::Dataset& dataset) {
  nlohmann::ordered_json samples = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < batch.size(); ++i) {
    const std::int64_t label = static_cast<const std::int64_t*>(batch.labels.data)[i];
    nlohmann::ordered_json sample;
    sample["index"] = batch.indices[i];
    put_text(sample, "key", dataset.key(batch.indices[i]));
    sample["label"] = label;
    const auto& classes = dataset.classes();
    if (label >= 0 && static_cast<std::size_t>(label) < classes.size()) {
      put_text(sample, "class", classes[static_cast<std::size_t>(label)]);
    }
    sample["flag"] = name_of(batch.flags[i]);
    samples.push_back(std::move(sample));
  }
  return {{"epoch", batch.epoch},
          {"step", batch.step},
          {"shape", batch.images.shape},
          {"dtype", to_string(batch.images.dtype)},
          {"samples", std::move(samples)}};
}

/// The batch that is asked for: of the epoch, or counted from the state.
Batch load(Loader& loader, const Options& options) {
  if (options.state.path.empty()) {
    loader.set_epoch(options.epoch);
  } else if (!options.state.load_into(loader)) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("{}: no such file; give one that a state was saved in",
                            printable(options.state.path)));
  }
  std::optional<Batch> batch;
  for (std::uint64_t taken = 0; taken <= options.step;) {
    batch = loader.next();
    if (batch) ++taken;
  }
  return *std::move(batch);
}

int run(const Options& options) {
  const LoaderOptions made = options.load.make();
  Loader loader(made);
  if (options.state.path.empty() && options.step >= loader.plan().steps) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--step is {}; an epoch has the steps 0 to {}", options.step,
                            loader.plan().steps - 1));
  }
  if (mkdir(options.out.c_str(), 0777) != 0 && errno != EEXIST) {
    throw Error(ErrorCode::kIo, fmt::format("{}: can't be made ({}); choose another place",
                                            printable(options.out), errno_text("mkdir", errno)));
  }
  for (const char* file : {"/images.npy", "/labels.npy"}) {
    formats::check_output("--out", options.out + file,
                          pipeline::input_files(made, &loader.dataset()), formats::never_own);
  }
  warn(loader.plan().warnings);
  const Batch batch = load(loader, options);
  write_npy(options.out + "/images.npy", batch.images);
  write_npy(options.out + "/labels.npy", batch.labels);
  print_json(describe(batch, loader.dataset()));
  warn(loader.stats().fallbacks);
  warn(loader.stats().complaints);
  return kGood;
}

}  // namespace

void add_batch(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("batch", "Write one batch as images.npy and labels.npy, its keys as JSON");
  options->load.add_to(*command);
  options->state.add_to(*command, "Count steps from the state in this file, which stays as it is");
  command->add_option("--out", options->out, "The folder to write into; made if it is not there")
      ->required();
  command->add_option("--epoch", options->epoch, "Of the batch; not with --state")
      ->check(whole_number(0))
      ->capture_default_str();
  command->add_option("--step", options->step, "Of the batch in its epoch, or from the state on")
      ->check(whole_number(0))
      ->capture_default_str();
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
