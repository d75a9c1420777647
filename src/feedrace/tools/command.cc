// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/command.h"

#include <map>

#include <fmt/format.h>

namespace feedrace::tools {
namespace {

const std::map<std::string, DType> kDTypes = {
    {"uint8", DType::kUint8}, {"float16", DType::kFloat16}, {"float32", DType::kFloat32}};
const std::map<std::string, LastBatch> kLastBatches = {
    {"drop", LastBatch::kDrop}, {"pad", LastBatch::kPad}, {"partial", LastBatch::kPartial}};
const std::map<std::string, OnError> kPolicies = {
    {"raise", OnError::kRaise}, {"replace", OnError::kReplace}, {"zero", OnError::kZero}};

template <typename T>
std::vector<std::string> names_of(const std::map<std::string, T>& values) {
  std::vector<std::string> names;
  names.reserve(values.size());
  for (const auto& [name, value] : values) names.push_back(name);
  return names;
}

}  // namespace

Exit exit_of(ErrorCode code) noexcept {
  switch (code) {
    case ErrorCode::kInvalidArgument:
    case ErrorCode::kNotFound:
      return kWrongUse;
    case ErrorCode::kCorruptData:
      return kBadData;
    case ErrorCode::kIo:
    case ErrorCode::kUnsupported:
      return kEnvironment;
    case ErrorCode::kCancelled:
      return kInterrupted;
  }
  return kEnvironment;
}

void add_command(CLI::App& command, Run run) {
  command.callback([run = std::move(run)] {
    if (const int code = run(); code != kGood) throw CLI::RuntimeError(code);
  });
}

void DataOptions::add_to(CLI::App& command) {
  command
      .add_option("path", sources,
                  "An image folder, tar shards (file, folder, glob or brace pattern) or a list")
      ->required();
  command
      .add_option("--image-fields", format.image_fields,
                  "Names of the image field in shards, the first found wins")
      ->delimiter(',')
      ->capture_default_str();
  command
      .add_option("--label-field", format.label_field,
                  "Where a shard's label is: auto, cls, json, or none")
      ->capture_default_str();
  command
      .add_option("--label-json-key", format.label_json_key,
                  "The member of a .json field that holds the label")
      ->capture_default_str();
  command.add_option("--label-file", format.label_file, "A text file with a line 'key label' each");
  command.add_option("--cache-dir", format.cache_dir,
                     "Where indexes go when the shards' folder can't be written");
}

void LoadOptions::add_to(CLI::App& command) {
  data.add_to(command);
  command.add_option("--recipe", recipe, "What happens to each image")
      ->check(CLI::IsMember(Pipeline::recipe_names()))
      ->capture_default_str();
  command.add_option("--batch", loader.batch_size, "Images in a batch")->capture_default_str();
  command.add_option("--threads", loader.thread_count, "Decode threads; 0: by the usable cores")
      ->capture_default_str();
  command.add_option("--prefetch", loader.prefetch_factor, "Batches ahead of the consumer")
      ->capture_default_str();
  command.add_option("--queue-depth", loader.queue_depth, "Reads in flight")->capture_default_str();
  command.add_option("--backend", loader.backend, "auto, uring or buffered")->capture_default_str();
  command.add_option("--fallback", fallback, "What to do when the back end can't be had")
      ->check(CLI::IsMember({"warn", "error"}))
      ->capture_default_str();
  command.add_option("--seed", loader.seed, "Of order, crops and flips")->capture_default_str();
  command.add_flag("--no-shuffle", no_shuffle, "Keep the stored order");
  std::vector<std::string> last_batches = names_of(kLastBatches);
  last_batches.emplace_back("auto");
  command
      .add_option(
          "--last-batch", last_batch,
          "A last batch that is not full; auto drops it when shuffling, else delivers it short")
      ->check(CLI::IsMember(last_batches))
      ->capture_default_str();
  command.add_option("--dtype", dtype, "Of the images")
      ->check(CLI::IsMember(names_of(kDTypes)))
      ->capture_default_str();
  command.add_option("--layout", layout, "Of the images")
      ->check(CLI::IsMember({"CHW", "HWC"}))
      ->capture_default_str();
  command.add_flag("--upright", upright, "Turn pictures by their EXIF orientation");
  command.add_option("--on-error", on_error, "What to do with a bad sample")
      ->check(CLI::IsMember(names_of(kPolicies)))
      ->capture_default_str();
  command.add_option("--error-budget", loader.error_budget, "Bad samples tolerated in an epoch");
  command.add_option("--error-budget-share", loader.error_budget_share,
                     "The same as a share of the epoch");
  command.add_option("--quarantine", loader.quarantine_file, "List bad samples in this file");
  command.add_option("--memory-limit", loader.memory_limit_bytes, "Of the loader, such as 2GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true));
  command.add_option("--timeout", loader.timeout_seconds, "Seconds a batch may take; 0: no limit")
      ->capture_default_str();
  command.add_option("--max-pixels", loader.max_pixels, "A larger picture is a bad sample")
      ->capture_default_str();
}

LoaderOptions LoadOptions::make() const {
  LoaderOptions options = loader;
  options.sources = data.sources;
  options.format = data.format;
  if (options.format.label_field == "none") options.format.label_field.clear();
  options.pipeline = Pipeline::recipe(recipe);
  options.pipeline.dtype = kDTypes.at(dtype);
  if (options.pipeline.dtype == DType::kUint8) {
    options.pipeline.mean.clear();
    options.pipeline.std.clear();
  }
  options.pipeline.layout = layout == "CHW" ? Layout::kChw : Layout::kHwc;
  options.pipeline.orientation = upright ? Orientation::kUpright : Orientation::kKeep;
  options.shuffle = !no_shuffle && recipe == "imagenet-train";
  options.last_batch = last_batch != "auto" ? kLastBatches.at(last_batch)
                       : options.shuffle    ? LastBatch::kDrop
                                            : LastBatch::kPartial;
  options.on_error = kPolicies.at(on_error);
  options.fallback = fallback == "error" ? Fallback::kError : Fallback::kWarn;
  return options;
}

}  // namespace feedrace::tools
