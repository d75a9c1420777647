// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/plan.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/alignment.h"
#include "feedrace/core/buffer_pool.h"
#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/decoded_pictures.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/order/mixing.h"
#include "feedrace/pipeline/direct_plan.h"
#include "feedrace/pipeline/pinned_arena.h"
#include "feedrace/ranks/world.h"

namespace feedrace {
namespace pipeline {
namespace {

// Slots besides the window: the one that the consumer gets and the one that it has not let go yet
// (`for batch in loader` holds the old one until the new one is there). Where batches go to a GPU,
// the two that are copied from at a time (`cuda::BatchUpload::kCopiesInFlight`).
constexpr std::size_t kConsumerSlots = 2;
// A decode thread's decoder, resampler and heap for ordinary photos, as measured (docs/memory.md).
constexpr std::uint64_t kScratchBytesPerThread = std::uint64_t{1} << 20;
// What pictures and samples out of the ordinary may take besides, together, when no limit is given:
// half of what the machine has left.
constexpr std::uint64_t kFallbackMemoryBytes = std::uint64_t{4} << 30;

// The largest encoded sample: one of several GB is no picture, and reading it all to find that out
// would break the plan and hold up the end of the run.
constexpr std::uint64_t kMaxSampleBytes = std::uint64_t{1} << 30;

constexpr std::size_t kMaxBatchSize = 1 << 20;
constexpr std::size_t kMaxThreads = 1024;
constexpr std::size_t kMaxPrefetch = 1024;
constexpr std::size_t kMaxQueueDepth = 4096;

// Samples that a reader knows ahead, about 200 bytes each.
constexpr std::uint64_t kMaxHorizon = 65'536;

constexpr std::uint64_t kMaxShuffleSamples = std::uint64_t{1} << 40;

template <typename T>
void check_range(const char* name, T value, T lowest, T highest) {
  if (value >= lowest && value <= highest) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} is {}; it must be from {} to {}", name, value, lowest, highest));
}

std::string describe_policy(const LoaderOptions& options) {
  std::string text = options.on_error == OnError::kRaise     ? "raise at the first bad sample"
                     : options.on_error == OnError::kReplace ? "replace bad samples"
                                                             : "blank bad samples";
  if (options.on_error != OnError::kRaise && options.error_budget != ~std::uint64_t{0}) {
    text += fmt::format(", at most {} an epoch", options.error_budget);
  }
  if (options.on_error != OnError::kRaise && options.error_budget_share < 1) {
    text += fmt::format(", at most {} % of an epoch", options.error_budget_share * 100);
  }
  return text;
}

/// A window shuffle with less memory than its window takes reads its chunks in pieces, and says so.
void fit_window(Sizing& sizing) {
  BufferShape& buffers = sizing.buffers;
  if (buffers.count <= buffers.base_count) return;
  Plan& plan = sizing.plan;
  const std::uint64_t needed = plan.other_bytes + plan.decode_scratch_bytes + plan.batch_slot_bytes;
  const std::uint64_t left =
      plan.memory_limit_bytes > needed ? plan.memory_limit_bytes - needed : 0;
  const auto fitting = static_cast<std::size_t>(left / (sizing.reader_count * buffers.bytes));
  if (fitting >= buffers.count) return;
  plan.warnings.push_back(fmt::format(
      "the shuffle window needs {} of read buffers and the memory limit leaves {}: chunks are read "
      "in smaller pieces; use a smaller shuffle_window, or raise memory_limit",
      human_bytes(sizing.reader_count * buffers.count * buffers.bytes), human_bytes(left)));
  buffers.count = std::max(buffers.base_count, fitting);
}

/// `encoded_bytes`: of the pictures that a slot keeps for a GPU.
void plan_memory(const LoaderOptions& options, const SlotShape& slot, std::uint64_t encoded_bytes,
                 Sizing& sizing) {
  Plan& plan = sizing.plan;
  plan.other_bytes = anonymous_memory_bytes();
  plan.decode_scratch_bytes = plan.decode_threads * kScratchBytesPerThread;
  sizing.planned_slots = options.prefetch_factor + kConsumerSlots;
  plan.batch_slot_bytes = sizing.planned_slots * (slot.total_bytes + encoded_bytes);
  plan.memory_limit_bytes = options.memory_limit_bytes;
  if (plan.memory_limit_bytes == 0) {
    plan.memory_limit_bytes =
        available_memory_bytes().value_or(2 * kFallbackMemoryBytes) / 2 + plan.other_bytes;
  }
  fit_window(sizing);
  if (!is_direct(options)) {
    plan.read_buffer_bytes = sizing.reader_count * sizing.buffers.count * sizing.buffers.bytes;
  }
  plan.memory_bytes =
      plan.other_bytes + plan.read_buffer_bytes + plan.decode_scratch_bytes + plan.batch_slot_bytes;
  if (plan.memory_bytes > plan.memory_limit_bytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the plan needs {} and the memory limit is {} ({} batches of {} each, "
                            "read buffers {}, {} before the loader); use a smaller batch_size or "
                            "prefetch_factor, or raise memory_limit",
                            human_bytes(plan.memory_bytes), human_bytes(plan.memory_limit_bytes),
                            sizing.planned_slots, human_bytes(slot.total_bytes),
                            human_bytes(plan.read_buffer_bytes), human_bytes(plan.other_bytes)));
  }
  const std::uint64_t spare = plan.memory_limit_bytes - plan.memory_bytes;
  sizing.slot_limit = sizing.planned_slots + static_cast<std::size_t>(spare / slot.total_bytes);
  sizing.ragged_limit_bytes = spare + sizing.planned_slots * encoded_bytes;
  if (slot.is_ragged) {
    plan.warnings.push_back(
        fmt::format("pictures differ in size, so their memory is not in the plan; all together "
                    "they get up to {}",
                    human_bytes(spare)));
  }
  sizing.max_sample_bytes =
      is_direct(options) ? direct_sample_bytes(sizing.buffers)
                         : std::clamp<std::uint64_t>(spare, sizing.buffers.bytes, kMaxSampleBytes);
}

std::string mixing_text(const order::Mixing& mixing) {
  return fmt::format(
      "{:.0f} % of random: {} samples in a row come from {:.1f} of {} equal parts of the data, in "
      "random order from {:.1f}",
      100 * mixing.score, mixing.batch_samples, mixing.stretches, mixing.batch_samples,
      mixing.random_stretches);
}

/// Who gets what in an epoch. Needs the order.
void plan_split(const LoaderOptions& options, Sizing& sizing) {
  const World world = ranks::find_world(options.rank, options.world_size,
                                        [](const char* name) { return std::getenv(name); });
  const bool shuffles = sizing.order->options().shuffle.shuffle != Shuffle::kNone;
  const LastBatch by_default = shuffles         ? LastBatch::kDrop
                               : world.size > 1 ? LastBatch::kPad
                                                : LastBatch::kPartial;
  sizing.split = {options.batch_size, world.rank, world.size,
                  options.last_batch.value_or(by_default)};
  const std::uint64_t samples = sizing.order->epoch_samples();
  order::require_batches(sizing.split, samples);
  const order::Split split = order::make_split(sizing.split, samples);
  Plan& plan = sizing.plan;
  plan.rank = world.rank;
  plan.world_size = world.size;
  plan.world_source = world.source;
  plan.epoch_samples = samples;
  plan.steps = split.steps;
  plan.samples_a_rank = split.samples_a_rank;
  plan.last_batch_size = split.last_batch_size;
  plan.dropped_samples = split.dropped;
  plan.padded_samples = split.padded;
  plan.last_batch = sizing.split.last_batch;
  plan.batch_size = options.batch_size;
  plan.order = sizing.order->describe();
  const order::Mixing mixing =
      order::measure_mixing(*sizing.order, /*epoch=*/0, sizing.split.global_batch());
  plan.mixing = mixing.score;
  plan.mixing_text = mixing_text(mixing);
}

/// Empty where no picture has one, or nothing is decoded. That there are some and none is used is
/// said with the reason.
std::string describe_crops(const LoaderOptions& options, const formats::Dataset& dataset,
                           bool decodes_on_device) {
  const std::uint64_t count = dataset.crop_index_count();
  if (count == 0 || options.pipeline.raw || options.pipeline.reads_only) return "";
  std::string text =
      fmt::format("{} of {} pictures", with_commas(count), with_commas(dataset.size()));
  if (options.crop_index == CropIndexes::kOff) return "off, though there is one of " + text;
  if (options.jpeg_engine == decode::JpegEngine::kLibjpegTurbo) {
    return "not used by libjpeg-turbo, though there is one of " + text;
  }
  if (decodes_on_device) return text + ", used for those that the CPU decodes";
  return text;
}

/// What a slot keeps of its pictures for a device. Where they are decoded already that is pixels of
/// crops, in whole blocks: no more than whole pictures, unless those are compressed.
std::uint64_t device_input_bytes(const LoaderOptions& options, const formats::Dataset& dataset) {
  const auto bytes = static_cast<std::uint64_t>(dataset.mean_image_bytes() *
                                                static_cast<double>(options.batch_size));
  return formats::holds_decoded(dataset) ? round_up(bytes, PinnedArena::kBlockBytes) : bytes;
}

void plan_sets(const OpenedSets& opened, const order::SampleOrder& order, Plan& plan) {
  double weights = 0;
  for (const order::SetState& set : opened.states) weights += set.weight;
  for (const order::SetState& set : opened.states) {
    const double samples = static_cast<double>(set.selected_count) *
                           static_cast<double>(set.repeat) /
                           static_cast<double>(order.epoch_samples());
    plan.sets.push_back({set.name, set.sample_count, set.selected_count, set.subset, set.repeat,
                         set.weight, weights > 0 ? set.weight / weights : samples});
  }
}

}  // namespace

void check_options(const LoaderOptions& options) {
  check_range<std::size_t>("batch_size", options.batch_size, 1, kMaxBatchSize);
  check_range<std::size_t>("thread_count", options.thread_count, 0, kMaxThreads);
  check_range<std::size_t>("prefetch_factor", options.prefetch_factor, 1, kMaxPrefetch);
  check_range<std::size_t>("queue_depth", options.queue_depth, 1, kMaxQueueDepth);
  check_range("error_budget_share", options.error_budget_share, 0.0, 1.0);
  check_range("timeout_seconds", options.timeout_seconds, 0.0, 1e9);
  check_range<std::uint64_t>("max_pixels", options.max_pixels, 1, std::uint64_t{1} << 40);
  check_range<std::uint64_t>("shuffle_chunk", options.shuffle_chunk, 1, kMaxShuffleSamples);
  check_range<std::uint64_t>("shuffle_window", options.shuffle_window, 1, kMaxShuffleSamples);
  options.pipeline.check();
  check_direct(options);
}

std::size_t default_decode_threads(std::size_t usable_cores) noexcept {
  return usable_cores >= kCoresBeforeReserve ? usable_cores - kReservedCores
                                             : std::max<std::size_t>(1, usable_cores);
}

BufferShape plan_buffers(const LoaderOptions& options, std::size_t decode_threads,
                         double mean_image_bytes, std::uint64_t window_samples) {
  // A buffer of twice the mean holds nearly every photo; the rest get memory of their own.
  constexpr double kMostInPool = 16 << 20;
  // A chunk larger than this is read in pieces, which costs a disk nothing any more.
  constexpr double kMostOfChunk = 4 << 20;
  // Extents of a window that is ending are still held while the next one's are read.
  constexpr double kWindowOverlap = 1.25;
  const bool holds_window = window_samples > 0;
  BufferShape shape;
  double wanted = std::min(2 * mean_image_bytes, kMostInPool);
  const double chunk_bytes = static_cast<double>(options.shuffle_chunk) * mean_image_bytes;
  if (holds_window) wanted = std::max(wanted, std::min(1.1 * chunk_bytes, kMostOfChunk));
  const std::size_t in_flight = options.queue_depth + 2 * decode_threads;
  const auto wanted_bytes = static_cast<std::size_t>(wanted);
  if (holds_window) {
    const std::uint64_t paged = round_up(wanted_bytes, HostMemory::kPageBytes);
    shape.bytes = std::max(kDefaultBufferBytes, static_cast<std::size_t>(paged));
    shape.base_count = in_flight;
    const double window = static_cast<double>(window_samples) * mean_image_bytes;
    const double in_use = std::min(chunk_bytes, static_cast<double>(shape.bytes));
    shape.count = shape.base_count + static_cast<std::size_t>(kWindowOverlap * window / in_use);
  } else {
    shape.bytes = std::max(kDefaultBufferBytes, std::bit_ceil(wanted_bytes));
    shape.base_count = std::max(kDefaultBufferCount, in_flight);
    shape.count = shape.base_count;
  }
  return shape;
}

std::shared_ptr<const order::SampleOrder> make_order(const LoaderOptions& options,
                                                     const OpenedSets& opened,
                                                     const order::State::Origin& origin) {
  order::OrderOptions order;
  order.sets = opened.sets;
  order.shuffle = {options.shuffle.value_or(default_shuffle(options)), options.shuffle_chunk,
                   options.shuffle_window, options.seed};
  order.epoch_samples = options.epoch_samples;
  order.origin = origin;
  return std::make_shared<const order::SampleOrder>(std::move(order));
}

Sizing make_sizing(const LoaderOptions& options, const OpenedSets& opened, std::size_t reader_count,
                   bool decodes_on_device) {
  const formats::Dataset& dataset = *opened.dataset;
  Sizing sizing;
  sizing.order = make_order(options, opened, {});
  Plan& plan = sizing.plan;
  plan_split(options, sizing);
  plan_sets(opened, *sizing.order, plan);
  plan.dataset_kind = dataset.kind();
  plan.sample_count = dataset.size();
  plan.shard_count = dataset.shards().size();
  plan.class_count = dataset.classes().size();
  plan.label_source = dataset.label_source();
  plan.pipeline = options.pipeline.describe();
  plan.unfused = options.pipeline.unfused();
  plan.fields = options.fields;
  plan.crop_index = describe_crops(options, dataset, decodes_on_device);
  plan.jpeg_engine = decode::to_string(options.jpeg_engine);
  plan.usable_cores = usable_cores();
  plan.decode_threads =
      options.thread_count > 0 ? options.thread_count : default_decode_threads(plan.usable_cores);
  plan.queue_depth = options.queue_depth;
  plan.reader_threads = reader_count;
  plan.prefetch_factor = options.prefetch_factor;
  plan.on_error = describe_policy(options);
  plan.fingerprint = dataset.fingerprint();
  plan.warnings = dataset.warnings();
  plan.warnings.insert(plan.warnings.end(), opened.warnings.begin(), opened.warnings.end());

  sizing.reader_count = reader_count;
  const bool holds_window =
      sizing.order->options().shuffle.shuffle == Shuffle::kWindow && dataset.mean_image_bytes() > 0;
  sizing.buffers =
      is_direct(options)
          ? direct_buffers(options, dataset, plan.decode_threads)
          : plan_buffers(options, plan.decode_threads, dataset.mean_image_bytes(),
                         holds_window ? std::min(options.shuffle_window, plan.epoch_samples) : 0);
  const std::uint64_t ahead = options.prefetch_factor * std::uint64_t{options.batch_size} +
                              (holds_window ? options.shuffle_window : 0);
  sizing.horizon = static_cast<std::size_t>(std::min<std::uint64_t>(ahead, kMaxHorizon));
  const bool is_past_host = is_direct(options);
  const std::uint64_t for_device =
      decodes_on_device && !is_past_host ? device_input_bytes(options, dataset) : 0;
  plan_memory(options,
              SlotShape(options.pipeline, options.batch_size,
                        /*images_elsewhere=*/is_direct_raw(options)),
              for_device, sizing);
  return sizing;
}

}  // namespace pipeline

namespace {

std::string describe_set(const Plan::Set& set, bool is_only) {
  std::string text = is_only ? "" : printable(set.name) + ": ";
  text += set.subset == "all" ? "all " + formats::counted(set.sample_count, "sample") : set.subset;
  if (set.repeat > 1) text += fmt::format(", {} passes an epoch", with_commas(set.repeat));
  if (!is_only) text += fmt::format(", {:.4g} % of an epoch", 100 * set.epoch_share);
  return text;
}

std::string describe_epoch(const Plan& plan) {
  std::string text =
      fmt::format("{}, {} batch{} of {}", formats::counted(plan.epoch_samples, "sample"),
                  with_commas(plan.steps), plan.steps == 1 ? "" : "es", plan.batch_size);
  if (plan.world_size > 1) text += fmt::format(" on each of {} ranks", plan.world_size);
  if (plan.last_batch_size != plan.batch_size) {
    text += fmt::format(", the last of {}", plan.last_batch_size);
  }
  if (plan.dropped_samples > 0) {
    text += ", " + formats::counted(plan.dropped_samples, "sample") + " dropped";
  }
  if (plan.padded_samples > 0) {
    text += fmt::format(", {} repeated", with_commas(plan.padded_samples));
  }
  return text + fmt::format(" (last_batch={})", to_string(plan.last_batch));
}

nlohmann::ordered_json sets_json(const std::vector<Plan::Set>& sets) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Plan::Set& set : sets) {
    list.push_back({{"name", printable(set.name)},
                    {"samples", set.sample_count},
                    {"selected", set.selected_count},
                    {"subset", set.subset},
                    {"repeat", set.repeat},
                    {"weight", set.weight},
                    {"epoch_share", set.epoch_share}});
  }
  return list;
}

}  // namespace

std::string Plan::to_text() const {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<10}{}\n", name, value);
  };
  std::string what = fmt::format("{}, {}", dataset_kind, formats::counted(sample_count, "sample"));
  if (shard_count > 0) what += fmt::format(" in {}", formats::counted(shard_count, "shard"));
  if (class_count > 0) {
    what += fmt::format(", {} class{}", with_commas(class_count), class_count == 1 ? "" : "es");
  }
  line("data", what + ", fingerprint " + fingerprint);
  line("labels", label_source);
  for (const Set& set : sets) {
    if (sets.size() == 1 && set.subset == "all" && set.repeat == 1) continue;
    line(sets.size() == 1 ? "subset" : "set", describe_set(set, sets.size() == 1));
  }
  line("epoch", describe_epoch(*this));
  if (world_size > 1) {
    line("rank", fmt::format("{} of {}, from {}; each gets {} samples an epoch", rank, world_size,
                             world_source, with_commas(samples_a_rank)));
  }
  line("order", order);
  line("mixing", mixing_text);
  line("pipeline", pipeline);
  if (!fields.empty()) line("fields", fmt::format("{}", fmt::join(fields, ", ")));
  line("storage", backend_reason);
  if (!shared_cache.empty()) line("cache", shared_cache);
  if (!crop_index.empty()) line("crops", "crop index: " + crop_index);
  if (device != "cpu" || !device_reason.empty()) {
    line("device", device_reason.empty() ? device : device + ": " + device_reason);
  }
  if (device != "cpu" && !decode_device.empty()) {
    line("decoding", decode_device_reason.empty() ? decode_device
                                                  : decode_device + ": " + decode_device_reason);
  }
  if (jpeg_engine != to_string(decode::JpegEngine::kFeedrace)) {
    line("jpeg", jpeg_engine + ", as asked for");
  }
  line("threads",
       fmt::format("{} I/O (queue depth {}), {} decode of {} usable cores, {} batches ahead",
                   reader_threads, queue_depth, decode_threads, usable_cores, prefetch_factor));
  line("memory", fmt::format("{} = batches {} + read buffers {} + decode {} + process {}; limit {}",
                             human_bytes(memory_bytes), human_bytes(batch_slot_bytes),
                             human_bytes(read_buffer_bytes), human_bytes(decode_scratch_bytes),
                             human_bytes(other_bytes), human_bytes(memory_limit_bytes)));
  line("errors", on_error);
  for (const std::string& warning : warnings) line("note", warning);
  return text;
}

std::string Plan::to_json() const {
  const nlohmann::ordered_json json = {
      {"dataset", dataset_kind},
      {"samples", sample_count},
      {"shards", shard_count},
      {"classes", class_count},
      {"labels", label_source},
      {"fingerprint", fingerprint},
      {"sets", sets_json(sets)},
      {"rank", rank},
      {"world_size", world_size},
      {"world_source", world_source},
      {"batch_size", batch_size},
      {"epoch_samples", epoch_samples},
      {"steps", steps},
      {"samples_a_rank", samples_a_rank},
      {"last_batch", to_string(last_batch)},
      {"last_batch_size", last_batch_size},
      {"dropped_samples", dropped_samples},
      {"padded_samples", padded_samples},
      {"order", order},
      {"mixing", mixing},
      {"mixing_text", mixing_text},
      {"pipeline", pipeline},
      {"unfused", unfused},
      {"fields", fields},
      {"backend", backend},
      {"backend_reason", backend_reason},
      {"device", device},
      {"device_reason", device_reason},
      {"decode_device", decode_device},
      {"decode_device_reason", decode_device_reason},
      {"jpeg_engine", jpeg_engine},
      {"shared_cache", shared_cache},
      {"crop_index", crop_index},
      {"reader_threads", reader_threads},
      {"usable_cores", usable_cores},
      {"decode_threads", decode_threads},
      {"queue_depth", queue_depth},
      {"prefetch_factor", prefetch_factor},
      {"on_error", on_error},
      {"memory",
       {{"batch_slot_bytes", batch_slot_bytes},
        {"read_buffer_bytes", read_buffer_bytes},
        {"decode_scratch_bytes", decode_scratch_bytes},
        {"other_bytes", other_bytes},
        {"total_bytes", memory_bytes},
        {"limit_bytes", memory_limit_bytes}}},
      {"warnings", warnings},
  };
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace feedrace
