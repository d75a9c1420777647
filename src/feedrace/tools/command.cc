// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/command.h"

#include <charconv>
#include <map>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/core/text.h"

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

/// What the transformation to bytes would wrap around.
CLI::Validator unsigned_text() {
  const auto check = [](const std::string& text) {
    return text.starts_with('-') ? "a size can't be negative" : std::string();
  };
  return {check, ""};
}

/// Another output size; a centre crop keeps the recipe's proportion of resize to crop.
void resize(Pipeline& pipeline, std::uint32_t size_px) {
  if (pipeline.random_resized_crop) {
    pipeline.random_resized_crop->size_px = size_px;
    return;
  }
  ResizeCenterCrop& center = *pipeline.resize_center_crop;
  const std::uint64_t resized = std::uint64_t{center.resize_px} * size_px / center.crop_px;
  center.resize_px = static_cast<std::uint32_t>(resized);
  center.crop_px = size_px;
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

void warn(const std::vector<std::string>& sentences) {
  for (const std::string& sentence : sentences) fmt::print(stderr, "feedrace: {}\n", sentence);
}

CLI::Validator whole_number(std::uint64_t lowest, std::uint64_t highest) {
  const auto check = [lowest, highest](const std::string& text) {
    std::uint64_t value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool is_octal = text.size() > 1 && text.front() == '0';
    const bool is_whole = error == std::errc() && stop == end && !is_octal;
    if (is_whole && value >= lowest && value <= highest) return std::string();
    return fmt::format("{} is not a whole number from {} to {}", printable(text), lowest, highest);
  };
  return {check, "NUMBER"};
}

CLI::Validator finite_number(double lowest, double highest) {
  const auto check = [lowest, highest](const std::string& text) {
    double value = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, value);
    const bool is_number = error == std::errc() && stop == end;
    if (is_number && value >= lowest && value <= highest) return std::string();  // Not nan.
    return fmt::format("{} is not a number from {} to {}", printable(text), lowest, highest);
  };
  return {check, "NUMBER"};
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
  add_pixel_options(command);
  add_order_options(command);
  add_machine_options(command);
  add_error_options(command);
}

void LoadOptions::add_pixel_options(CLI::App& command) {
  command
      .add_option("--recipe", recipe,
                  "What happens to each image; imagenet-val keeps the stored order and delivers a "
                  "short last batch")
      ->check(CLI::IsMember(Pipeline::recipe_names()))
      ->capture_default_str();
  command.add_option("--size", size_px, "Height and width of the output; 0: the recipe's")
      ->check(whole_number(0, 16384));
  command.add_option("--dtype", dtype, "Of the images")
      ->check(CLI::IsMember(names_of(kDTypes)))
      ->capture_default_str();
  command.add_option("--layout", layout, "Of the images")
      ->check(CLI::IsMember({"CHW", "HWC"}))
      ->capture_default_str();
  command.add_flag("--upright", upright, "Turn pictures by their EXIF orientation");
  command.add_option("--max-pixels", loader.max_pixels, "A larger picture is a bad sample")
      ->check(whole_number(1, std::uint64_t{1} << 40))
      ->capture_default_str();
}

void LoadOptions::add_order_options(CLI::App& command) {
  command.add_option("--batch,--batch-size", loader.batch_size, "Images in a batch")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--seed", loader.seed, "Of order, crops and flips")
      ->check(whole_number(0))
      ->capture_default_str();
  command.add_flag("--no-shuffle", no_shuffle, "Keep the stored order");
  std::vector<std::string> last_batches = names_of(kLastBatches);
  last_batches.emplace_back("auto");
  command
      .add_option("--last-batch", last_batch,
                  "A last batch that is not full; auto drops it when shuffling, else delivers it "
                  "short")
      ->check(CLI::IsMember(last_batches))
      ->capture_default_str();
}

void LoadOptions::add_machine_options(CLI::App& command) {
  command
      .add_option("--threads,--thread-count", loader.thread_count,
                  "Decode threads; 0: by the usable cores")
      ->check(whole_number(0, 1024))
      ->capture_default_str();
  command
      .add_option("--prefetch,--prefetch-factor", loader.prefetch_factor,
                  "Batches ahead of the consumer")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command.add_option("--queue-depth", loader.queue_depth, "Reads in flight")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  command.add_option("--backend", loader.backend, "auto, uring or buffered")->capture_default_str();
  command.add_option("--fallback", fallback, "What to do when the back end can't be had")
      ->check(CLI::IsMember({"warn", "error"}))
      ->capture_default_str();
  command.add_option("--memory-limit", loader.memory_limit_bytes, "Of the loader, such as 2GB")
      ->transform(CLI::AsSizeValue(/*kb_is_1000=*/true))
      ->transform(unsigned_text());  // The last one given runs first.
  command
      .add_option("--timeout,--timeout-seconds", loader.timeout_seconds,
                  "Seconds a batch may take; 0: no limit")
      ->check(finite_number(0, 1e9))
      ->capture_default_str();
}

void LoadOptions::add_error_options(CLI::App& command) {
  command.add_option("--on-error", on_error, "What to do with a bad sample")
      ->check(CLI::IsMember(names_of(kPolicies)))
      ->capture_default_str();
  command.add_option("--error-budget", loader.error_budget, "Bad samples tolerated in an epoch")
      ->check(whole_number(0));
  command
      .add_option("--error-budget-share", loader.error_budget_share,
                  "The same as a share of the epoch")
      ->check(finite_number(0, 1));
  command.add_option("--quarantine,--quarantine-file", loader.quarantine_file,
                     "List bad samples in this file");
}

LoaderOptions LoadOptions::make() const {
  LoaderOptions options = loader;
  options.sources = data.sources;
  options.format = data.format;
  if (options.format.label_field == "none") options.format.label_field.clear();
  options.pipeline = Pipeline::recipe(recipe);
  if (size_px != 0) resize(options.pipeline, size_px);
  options.pipeline.dtype = kDTypes.at(dtype);
  if (options.pipeline.dtype == DType::kUint8) {
    options.pipeline.mean.clear();
    options.pipeline.std.clear();
  }
  options.pipeline.layout = layout == "CHW" ? Layout::kChw : Layout::kHwc;
  options.pipeline.orientation = upright ? Orientation::kUpright : Orientation::kKeep;
  if (no_shuffle) options.shuffle = false;
  if (last_batch != "auto") options.last_batch = kLastBatches.at(last_batch);
  options.on_error = kPolicies.at(on_error);
  options.fallback = fallback == "error" ? Fallback::kError : Fallback::kWarn;
  return options;
}

}  // namespace feedrace::tools
