// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/load_options.h"

#include <charconv>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/key_list.h"
#include "feedrace/pipeline/option_names.h"
#include "feedrace/tools/device_target.h"
#include "feedrace/tools/size_text.h"

namespace feedrace::tools {
namespace {

const pipeline::Names<DType> kDTypes = {
    {"uint8", DType::kUint8}, {"float16", DType::kFloat16}, {"float32", DType::kFloat32}};
const pipeline::Names<DType> kRawDTypes = {{"uint8", DType::kUint8},
                                           {"float16", DType::kFloat16},
                                           {"float32", DType::kFloat32},
                                           {"int64", DType::kInt64}};
template <typename T>
std::vector<std::string> names_of(const pipeline::Names<T>& values, bool with_auto = false) {
  std::vector<std::string> names;
  names.reserve(values.size() + 1);
  for (const auto& [name, value] : values) names.push_back(name);
  if (with_auto) names.emplace_back("auto");
  return names;
}

/// Another output size; a centre crop keeps the recipe's proportion of resize to crop.
void resize(Pipeline& pipeline, std::uint32_t size_px) {
  const std::uint32_t before_px = pipeline.output_size()->width_px;
  for (Step& step : pipeline.steps) {
    if (auto* crop = std::get_if<RandomResizedCrop>(&step)) crop->size = {size_px, size_px};
    if (auto* crop = std::get_if<CenterCrop>(&step)) crop->size = {size_px, size_px};
    if (auto* resize = std::get_if<Resize>(&step)) {
      resize->side_px =
          static_cast<std::uint32_t>(std::uint64_t{resize->side_px} * size_px / before_px);
    }
  }
}

/// All of `text` as a number.
std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

Subset::Share parse_share(const std::string& text) {
  const std::size_t comma = text.find(',');
  if (comma != std::string::npos) {
    const auto begin = number_in(std::string_view(text).substr(0, comma));
    const auto end = number_in(std::string_view(text).substr(comma + 1));
    if (begin && end) return {*begin, *end};
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("--share: {} is not BEGIN,END, such as 0,0.9", printable(text)));
}

/// "0.7:/data/a" has a weight; "/data/a" and "./0.7:b" have none.
DataSource parse_set(const std::string& text) {
  DataSource source;
  const std::size_t colon = text.find(':');
  const auto weight = colon == std::string::npos
                          ? std::nullopt
                          : number_in(std::string_view(text).substr(0, colon));
  source.sources = {weight ? text.substr(colon + 1) : text};
  source.weight = weight.value_or(0);
  if (weight && !(*weight > 0)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--set: the weight of {} must be above 0", printable(text)));
  }
  return source;
}

}  // namespace

void add_jpeg_engine(CLI::App& command, std::string& name) {
  command
      .add_option("--jpeg-engine", name,
                  "Who decodes JPEG on the CPU: feedrace: our own decoder, what is unusual or "
                  "damaged by libjpeg-turbo; libjpeg-turbo: all of it; pixels are the same")
      ->check(CLI::IsMember(names_of(pipeline::kJpegEngineNames)))
      ->capture_default_str();
}

void LoadOptions::add_device_to(CLI::App& command) {
  command
      .add_option("--device", loader.device,
                  "Where batches are delivered: cpu, cuda, cuda:N, or auto (a GPU where one can be "
                  "used)")
      ->check(not_empty())
      ->capture_default_str();
  command
      .add_option("--decode-device", loader.decode_device,
                  "Where JPEG pictures of batches for a GPU are decoded: cuda: there; cpu; auto: "
                  "there where nvJPEG is and the pipeline is one fused pass")
      ->check(CLI::IsMember({"auto", "cpu", "cuda"}))
      ->capture_default_str();
  command
      .add_option("--hardware-share", loader.hardware_share,
                  "Of a batch's encoded bytes, for the GPU's JPEG engine, where it has one")
      ->check(finite_number(0, 1))
      ->capture_default_str();
  add_plugin_places(command, loader.cuda_plugin, loader.cuda_libraries);
}

void LoadOptions::add_watch_to(CLI::App& command) {
  command
      .add_option("--trace", trace_file,
                  "Write what every thread does to this file, for ui.perfetto.dev or "
                  "chrome://tracing")
      ->check(not_empty());
  command
      .add_option("--metrics", loader.metrics,
                  "Serve metrics for Prometheus on [ADDRESS:]PORT; a port alone is the loopback's")
      ->check(not_empty());
}

void LoadOptions::begin_trace(Loader& running) const {
  if (!trace_file.empty()) running.start_trace(trace_file);
}

void LoadOptions::add_to(CLI::App& command) {
  data.add_to(command)->required(false);  // There may be --set instead.
  add_pixel_options(command);
  add_subset_options(command);
  add_order_options(command);
  add_rank_options(command);
  add_machine_options(command);
  add_error_options(command);
}

void LoadOptions::add_pixel_options(CLI::App& command) {
  command
      .add_option("--recipe", recipe,
                  "What happens to each image; imagenet-val keeps the stored order and delivers a "
                  "short last batch; read drops it; raw takes .npy arrays as they are")
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
  command
      .add_option("--raw-dtype", raw_dtype,
                  "With --recipe raw: samples are numbers of this type without a header (.bin)")
      ->check(CLI::IsMember(names_of(kRawDTypes)));
  command
      .add_option("--raw-shape", raw_shape,
                  "With --raw-dtype: the shape of each sample, such as 3,224,224")
      ->delimiter(',')
      ->check(whole_number(1, std::uint64_t{1} << 30));
  command.add_flag("--upright", upright, "Turn pictures by their EXIF orientation");
  command.add_option("--max-pixels", loader.max_pixels, "A larger picture is a bad sample")
      ->check(whole_number(1, std::uint64_t{1} << 40))
      ->capture_default_str();
  add_jpeg_engine(command, jpeg_engine);
}

void LoadOptions::add_subset_options(CLI::App& command) {
  command.add_option("--set", sets,
                     "[WEIGHT:]PATH, several times: data sets mixed by weight or, without weights, "
                     "one after another, instead of a path");
  command
      .add_option("--epoch-samples", loader.epoch_samples,
                  "Samples of an epoch of sets mixed by weight; 0: as many as they have together")
      ->check(whole_number(0, std::uint64_t{1} << 62));
  command.add_option("--repeat", loader.repeat, "Passes over the data in an epoch; not with --set")
      ->check(whole_number(1, 1'000'000));
  command
      .add_option("--keys,--key-pattern", loader.subset.key_pattern,
                  "Only samples whose key matches, with its suffix or without: * any characters, ? "
                  "one, [a-z] a set")
      ->check(not_empty());
  command.add_option("--key-file", key_file, "Only the samples of this file, a key a line")
      ->check(not_empty());
  command
      .add_option("--index-file", index_file,
                  "Only the samples of this file, numbers one a line or a .npy")
      ->check(not_empty());
  CLI::Option* share_option =
      command
          .add_option("--share", share,
                      "BEGIN,END of 0 to 1: only keys whose hash lies in it, such as 0,0.9 to "
                      "train and 0.9,1 to validate; stays as it is when data is added")
          ->check(not_empty());
  command.add_option("--share-salt", loader.subset.share_salt, "Another number: another split")
      ->check(whole_number(0))
      ->needs(share_option);
  command.add_option("--number-like", loader.number_like,
                     "Number the samples as this data set does, matched by key");
}

void LoadOptions::add_order_options(CLI::App& command) {
  command.add_option("--batch,--batch-size", loader.batch_size, "Images in a batch of one rank")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  command.add_option("--seed", loader.seed, "Of order, crops and flips")
      ->check(whole_number(0))
      ->capture_default_str();
  command
      .add_option("--shuffle", shuffle,
                  "global: any sample may follow any; window: neighbours stay near each other, for "
                  "slow storage; none: as stored; auto: by the recipe")
      ->check(CLI::IsMember(names_of(pipeline::kShuffleNames, /*with_auto=*/true)))
      ->capture_default_str();
  command.add_flag("--no-shuffle", no_shuffle, "The same as --shuffle none");
  command.add_option("--shuffle-window", loader.shuffle_window, "Samples that a window mixes")
      ->check(whole_number(1, std::uint64_t{1} << 40))
      ->capture_default_str();
  command.add_option("--shuffle-chunk", loader.shuffle_chunk, "Neighbours read in one go")
      ->check(whole_number(1, std::uint64_t{1} << 40))
      ->capture_default_str();
  command
      .add_option("--last-batch", last_batch,
                  "Samples that make no full step: drop them; pad by repeats until ranks share "
                  "them evenly; partial: deliver as they are; fill up by repeats. auto: drop when "
                  "shuffling, else partial, on several ranks pad")
      ->check(CLI::IsMember(names_of(pipeline::kLastBatchNames, /*with_auto=*/true)))
      ->capture_default_str();
}

void LoadOptions::add_rank_options(CLI::App& command) {
  command
      .add_option("--rank", loader.rank,
                  "Which of the processes this is; else from the environment of torchrun, MPI or "
                  "SLURM")
      ->check(whole_number(0));
  command.add_option("--world-size", loader.world_size, "How many processes there are")
      ->check(whole_number(1));
  command
      .add_option("--rank-check", rank_check,
                  "A folder that all ranks can write to: waits for them, up to 300 s, and compares "
                  "seeds, data, settings and positions")
      ->check(not_empty());
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
  command
      .add_option("--backend", loader.backend,
                  "auto: the best that there is, and the plan says why; uring: io_uring; direct: "
                  "O_DIRECT on threads; buffered: the page cache on threads; cufile: raw samples "
                  "and decoded pictures from the drive into the GPU")
      ->capture_default_str();
  command
      .add_option("--page-cache", page_cache,
                  "keep: read through it and leave the pages for the next epoch; drop: leave none; "
                  "auto: keep where all of the data fit into half of the free memory, or 90 % are "
                  "cached already")
      ->check(CLI::IsMember({"auto", "keep", "drop"}))
      ->capture_default_str();
  command
      .add_option("--crop-index", crop_index,
                  "auto: decode crops from what index --crop-index made, where there is one; off")
      ->check(CLI::IsMember(names_of(pipeline::kCropIndexNames)))
      ->capture_default_str();
  command
      .add_option("--shared-cache", shared_cache.limit_bytes,
                  "Keep up to this much of encoded samples, such as 20GB, in memory that all ranks "
                  "on this machine share: each byte is read once; 0: none")
      ->transform(size_value());
  command
      .add_option("--shared-cache-name", shared_cache.name,
                  "Share it with those that give the same name; else with those that read the same "
                  "data")
      ->check(not_empty());
  command
      .add_option("--fallback,--io-fallback", fallback,
                  "error: refuse any other path than the one that was chosen, with the reason")
      ->check(CLI::IsMember({"warn", "error"}))
      ->capture_default_str();
  command
      .add_option("--sqpoll", sqpoll,
                  "Let a thread of the kernel submit reads, which takes a core; auto: with 8 cores "
                  "to spare")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  command.add_flag(
      "--iopoll", loader.iopoll,
      "Poll the device for completions; needs O_DIRECT and a drive with polled queues");
  command.add_option("--memory-limit", loader.memory_limit_bytes, "Of the loader, such as 2GB")
      ->transform(size_value());
  command
      .add_option("--timeout,--timeout-seconds", loader.timeout_seconds,
                  "Seconds a batch may take; 0: no limit")
      ->check(finite_number(0, 1e9))
      ->capture_default_str();
}

void LoadOptions::add_error_options(CLI::App& command) {
  command.add_option("--on-error", on_error, "What to do with a bad sample")
      ->check(CLI::IsMember(names_of(pipeline::kOnErrorNames)))
      ->capture_default_str();
  command.add_option("--error-budget", loader.error_budget, "Bad samples tolerated in an epoch")
      ->check(whole_number(0));
  command
      .add_option("--error-budget-share", loader.error_budget_share,
                  "The same as a share of the epoch")
      ->check(finite_number(0, 1));
  command
      .add_option("--quarantine,--quarantine-file", loader.quarantine_file,
                  "List bad samples in this file")
      ->check(not_empty());
}

void LoadOptions::fill_sources(LoaderOptions& options) const {
  options.sources = data.sources;
  options.format = data.format;
  if (options.format.label_field == "none") options.format.label_field.clear();
  if (data.sources.empty() == sets.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                sets.empty() ? "path is required: name a folder, shards or a list, or use --set"
                             : "a path and --set are both given; name all data by --set");
  }
  if (!sets.empty() && (options.repeat != 1 || !options.number_like.empty())) {
    throw Error(ErrorCode::kInvalidArgument,
                "--repeat and --number-like are of one data set; leave them out beside --set");
  }
  for (const std::string& set : sets) {
    DataSource source = parse_set(set);
    source.format = options.format;
    source.subset = options.subset;
    options.sets.push_back(std::move(source));
  }
}

Subset LoadOptions::make_subset() const {
  Subset subset = loader.subset;
  if (!key_file.empty()) subset.keys = formats::read_key_list(key_file);
  if (!index_file.empty()) subset.indices = formats::read_index_list(index_file);
  if (!share.empty()) subset.share = parse_share(share);
  return subset;
}

Pipeline LoadOptions::make_pipeline() const {
  Pipeline pipeline = Pipeline::recipe(recipe);
  const bool is_plain = !raw_dtype.empty() || !raw_shape.empty();
  if (is_plain && !pipeline.raw) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--raw-dtype and --raw-shape are of raw samples, and the recipe is {}; "
                            "add --recipe raw",
                            recipe));
  }
  if (is_plain) {
    pipeline.raw->form = RawSamples::Form::kPlain;
    if (!raw_dtype.empty()) pipeline.raw->dtype = kRawDTypes.at(raw_dtype);
    if (!raw_shape.empty()) pipeline.raw->shape = raw_shape;
  }
  if (pipeline.reads_only || pipeline.raw) return pipeline;
  if (size_px != 0) resize(pipeline, size_px);
  pipeline.dtype = kDTypes.at(dtype);
  if (pipeline.dtype == DType::kUint8) {
    pipeline.mean.clear();
    pipeline.std.clear();
  }
  pipeline.layout = layout == "CHW" ? Layout::kChw : Layout::kHwc;
  pipeline.orientation = upright ? Orientation::kUpright : Orientation::kKeep;
  return pipeline;
}

LoaderOptions LoadOptions::make() const {
  LoaderOptions options = loader;
  options.subset = make_subset();
  fill_sources(options);
  options.pipeline = make_pipeline();
  if (shuffle != "auto") options.shuffle = pipeline::kShuffleNames.at(shuffle);
  if (no_shuffle) options.shuffle = Shuffle::kNone;
  if (last_batch != "auto") options.last_batch = pipeline::kLastBatchNames.at(last_batch);
  if (!rank_check.empty()) options.rank_check = RankCheck{rank_check, {}};
  options.on_error = pipeline::kOnErrorNames.at(on_error);
  options.crop_index = pipeline::kCropIndexNames.at(crop_index);
  if (page_cache != "auto") {
    options.page_cache = page_cache == "keep" ? PageCache::kKeep : PageCache::kDrop;
  }
  if (shared_cache.limit_bytes == 0 && !shared_cache.name.empty()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        "--shared-cache-name names a cache without a size; add --shared-cache, such as 20GB");
  }
  if (shared_cache.limit_bytes > 0) options.shared_cache = shared_cache;
  options.jpeg_engine = pipeline::kJpegEngineNames.at(jpeg_engine);
  if (sqpoll != "auto") options.sqpoll = sqpoll == "on";
  options.fallback = fallback == "error" ? Fallback::kError : Fallback::kWarn;
  return options;
}

}  // namespace feedrace::tools
