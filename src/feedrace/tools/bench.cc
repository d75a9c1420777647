// SPDX-License-Identifier: Apache-2.0
// feedrace bench loader PATH: how fast batches come when nobody does anything with them.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/loader.h"
#include "feedrace/ops/half.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/load_options.h"
#include "feedrace/tools/machine.h"
#include "feedrace/tools/progress.h"

namespace feedrace::tools {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  LoadOptions load;
  double seconds = 10;
  std::uint64_t epochs = 0;
  bool as_json = false;
  bool quiet = false;
};

/// Checks that batches hold pictures, every value finite and not all the same, and gives their mean
/// and deviation, which for a normalised recipe lie near 0 and 1. Looks at the first and the last
/// batch, outside of the time that is measured.
class OutputCheck {
 public:
  void look_at(const Batch& batch) {
    const std::size_t count = batch.images.size_bytes() / size_of(batch.images.dtype);
    for (std::size_t i = 0; i < count; ++i) add(value(batch.images, i));
  }

  double mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }
  double deviation() const {
    if (count_ == 0) return 0;
    return std::sqrt(std::max(0.0, squares_ / static_cast<double>(count_) - mean() * mean()));
  }
  /// Empty when good.
  std::string complaint() const {
    if (not_finite_ > 0) return fmt::format("{} values are not finite", not_finite_);
    if (count_ > 0 && deviation() == 0) return "all values are equal";
    return {};
  }

 private:
  static double value(const Tensor& tensor, std::size_t i) {
    switch (tensor.dtype) {
      case DType::kFloat16:
        return ops::float_from_half(static_cast<const std::uint16_t*>(tensor.data)[i]);
      case DType::kFloat32:
        return static_cast<const float*>(tensor.data)[i];
      default:
        return static_cast<const std::uint8_t*>(tensor.data)[i];
    }
  }
  void add(double v) {
    if (!std::isfinite(v)) ++not_finite_;
    sum_ += v;
    squares_ += v * v;
    ++count_;
  }

  std::uint64_t count_ = 0;
  std::uint64_t not_finite_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

struct Measured {
  double first_batch_seconds = 0;
  double seconds = 0;      ///< From the first batch to the last.
  double cpu_seconds = 0;  ///< In that time.
  std::uint64_t images = 0;
  std::uint64_t read_bytes = 0;  ///< In that time.
  std::uint64_t epochs = 0;
  double device_wait_seconds = 0;   ///< In that time, for batches to be on the GPU.
  std::size_t anonymous_bytes = 0;  ///< The most that was seen.
  OutputCheck check;

  double device_wait_share() const { return seconds > 0 ? device_wait_seconds / seconds : 0; }
};

std::uint64_t total_bytes(const Stats& stats) {
  return std::accumulate(stats.bytes_by_path.begin(), stats.bytes_by_path.end(), std::uint64_t{0});
}

double gigabytes_per_second(const Measured& measured) {
  const auto bytes = static_cast<double>(measured.read_bytes);
  return measured.seconds > 0 ? bytes * 1e-9 / measured.seconds : 0;
}

/// Batches of a GPU are looked at on the host.
void look_at(const Batch& batch, OutputCheck& check) {
  if (!batch.on_device) return check.look_at(batch);
  std::vector<std::byte> bytes(batch.images.size_bytes());
  Batch copy = batch;
  copy.images.data = bytes.data();
  copy.images.device = -1;
  if (!bytes.empty()) batch.on_device->read(batch.images, bytes.data());
  check.look_at(copy);
}

/// What a consumer that needs the batch at once does; nothing where it is on the host.
void wait_for_device(const Batch& batch, Measured& measured) {
  if (!batch.on_device) return;
  batch.on_device->hand_over(0);
  const Clock::time_point start = Clock::now();
  batch.on_device->wait();
  measured.device_wait_seconds += std::chrono::duration<double>(Clock::now() - start).count();
}

/// Loads until time or epochs are over. The first batch is not part of the rate.
Measured measure(Loader& loader, const Options& options) {
  Measured measured;
  Progress progress("images", 0);
  Clock::time_point start;
  double cpu_at_start = 0;
  bool has_first = false;
  std::optional<Batch> last;
  while (options.epochs == 0 || measured.epochs < options.epochs) {
    const std::optional<Batch> batch = loader.next();
    if (!batch) {
      ++measured.epochs;
      continue;
    }
    if (!has_first) {
      has_first = true;
      measured.first_batch_seconds = seconds_since_process_start();
      look_at(*batch, measured.check);
      start = Clock::now();
      cpu_at_start = process_cpu_seconds();
      measured.read_bytes = total_bytes(loader.stats());
      continue;
    }
    measured.images += batch->size();
    wait_for_device(*batch, measured);
    last = *batch;
    measured.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    progress.update(measured.images, options.epochs > 0 ? 0 : measured.seconds / options.seconds);
    if (options.epochs == 0 && measured.seconds >= options.seconds) break;
  }
  measured.cpu_seconds = process_cpu_seconds() - cpu_at_start;
  measured.read_bytes = total_bytes(loader.stats()) - measured.read_bytes;
  if (last) look_at(*last, measured.check);
  measured.anonymous_bytes = anonymous_memory_bytes();
  return measured;
}

nlohmann::ordered_json stages_json(const Stats& stats) {
  nlohmann::ordered_json stages;
  for (const StageStats& stage : stats.stages) {
    const double total = stage.busy_seconds + stage.wait_seconds;
    stages[stage.name] = {{"threads", stage.thread_count},
                          {"busy_seconds", stage.busy_seconds},
                          {"wait_seconds", stage.wait_seconds},
                          {"busy_share", total > 0 ? stage.busy_seconds / total : 0},
                          {"cpu_seconds", stage.cpu_seconds},
                          {"items", stage.item_count}};
  }
  return stages;
}

nlohmann::ordered_json fallbacks_json(const Stats& stats) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const FallbackCount& each : stats.fallbacks) {
    list.push_back({{"reason", each.sentence}, {"count", each.count}});
  }
  return list;
}

nlohmann::ordered_json cache_json(const Stats& stats) {
  if (!stats.shared_cache) return nullptr;
  const CacheStats& cache = *stats.shared_cache;
  return {{"hits", cache.hits},
          {"misses", cache.misses},
          {"full", cache.full},
          {"busy", cache.busy},
          {"entries", cache.entries},
          {"filled_bytes", cache.filled_bytes},
          {"limit_bytes", cache.limit_bytes}};
}

/// Null where batches stay in the host's memory.
nlohmann::ordered_json device_json(const Loader& loader, const Measured& measured) {
  const Stats stats = loader.stats();
  if (!stats.device) return nullptr;
  const DeviceStats& device = *stats.device;
  return {{"device", loader.plan().device},
          {"decode_device", loader.plan().decode_device},
          {"copied_bytes", device.copied_bytes},
          {"slots", device.slots},
          {"hardware_decoded", device.hardware_decoded},
          {"software_decoded", device.software_decoded},
          {"host_decoded", device.host_decoded},
          {"already_decoded", device.already_decoded},
          {"wait_seconds", measured.device_wait_seconds},
          {"wait_share", measured.device_wait_share()}};
}

/// Who decoded the JPEG pictures; null: why any was left to libjpeg-turbo, where none was.
nlohmann::ordered_json jpeg_json(const Loader& loader, const JpegStats& jpeg) {
  nlohmann::ordered_json json = {{"engine", loader.plan().jpeg_engine},
                                 {"feedrace", jpeg.feedrace},
                                 {"libjpeg_turbo", jpeg.libjpeg_turbo},
                                 {"damaged", jpeg.damaged},
                                 {"kind", nullptr}};
  if (jpeg.kind != nullptr) json["kind"] = jpeg.kind;
  return json;
}

nlohmann::ordered_json report(const Loader& loader, const Measured& measured,
                              const Options& options) {
  const Stats stats = loader.stats();
  const auto images = static_cast<double>(measured.images);
  nlohmann::ordered_json by_path;
  for (std::size_t i = 0; i < kPathCount; ++i) {
    if (stats.bytes_by_path[i] > 0)
      by_path[to_string(static_cast<Path>(i))] = stats.bytes_by_path[i];
  }
  const Machine machine = describe_machine(options.load.data.sources.front());
  return {
      {"images_per_second", measured.seconds > 0 ? images / measured.seconds : 0},
      {"gb_per_second", gigabytes_per_second(measured)},
      {"cpu_seconds_per_1000", images > 0 ? measured.cpu_seconds * 1000 / images : 0},
      {"first_batch_seconds", measured.first_batch_seconds},
      {"peak_rss_mb", static_cast<double>(peak_resident_bytes()) / (1 << 20)},
      {"bytes_by_path", by_path},
      {"copies_per_byte", stats.copies_per_byte()},
      {"stages", stages_json(stats)},
      {"verdict", loader.explain()},
      {"images", measured.images},
      {"seconds", measured.seconds},
      {"epochs", measured.epochs},
      {"bad_samples", stats.bad_samples},
      {"substituted_samples", stats.substituted_samples},
      {"blanked_samples", stats.blanked_samples},
      {"padded_samples", stats.padded_samples},
      {"extra_slots", stats.extra_slots},
      {"planned_memory_bytes", loader.plan().memory_bytes},
      {"anonymous_memory_bytes", measured.anonymous_bytes},
      {"read_latency_ms",
       {{"p50", static_cast<double>(stats.read_latency.quantile_ns(0.5)) * 1e-6},
        {"p99", static_cast<double>(stats.read_latency.quantile_ns(0.99)) * 1e-6}}},
      {"output", {{"mean", measured.check.mean()}, {"std", measured.check.deviation()}}},
      {"reads", stats.reads},
      {"shared_cache", cache_json(stats)},
      {"device", device_json(loader, measured)},
      {"jpeg", jpeg_json(loader, stats.jpeg)},
      {"fallbacks", fallbacks_json(stats)},
      {"flagged_samples", stats.flagged_samples},
      {"crop_indexed", stats.crop_indexed},
      {"crop_index_refused", stats.crop_index_refused},
      {"complaints", stats.complaints},
      {"warnings", loader.plan().warnings},
      {"settings",
       {{"batch_size", loader.plan().batch_size},
        {"decode_threads", loader.plan().decode_threads},
        {"backend", stats.backend},
        {"queue_depth", loader.plan().queue_depth},
        {"pipeline", loader.plan().pipeline}}},
      {"machine",
       {{"cpu", machine.cpu},
        {"usable_cores", loader.plan().usable_cores},
        {"kernel", machine.kernel},
        {"file_system", machine.file_system},
        {"version", FEEDRACE_VERSION}}},
  };
}

void print_device(const Loader& loader, const Measured& measured) {
  const Stats stats = loader.stats();
  if (!stats.device) return;
  const DeviceStats& device = *stats.device;
  fmt::print(
      "device    {}: {} copied there, memory for {} batches; waited {:.2f} s ({:.1f} %) for "
      "batches to be there\n",
      printable(loader.plan().device), human_bytes(device.copied_bytes), device.slots,
      measured.device_wait_seconds, 100 * measured.device_wait_share());
  fmt::print(
      "decoded   {} pictures by the GPU's JPEG engine, {} on its cores, {} on the CPU; {} were "
      "decoded already and copied there\n",
      with_commas(device.hardware_decoded), with_commas(device.software_decoded),
      with_commas(device.host_decoded), with_commas(device.already_decoded));
}

/// Not where our own decoder did all.
void print_jpeg(const JpegStats& jpeg) {
  if (jpeg.libjpeg_turbo + jpeg.damaged == 0) return;
  fmt::print("jpeg      {} pictures by Feedrace's decoder, {} by libjpeg-turbo{}, {} damaged\n",
             with_commas(jpeg.feedrace), with_commas(jpeg.libjpeg_turbo),
             jpeg.kind != nullptr ? fmt::format(" (the last one: {})", jpeg.kind) : "",
             with_commas(jpeg.damaged));
}

void print_text(const Loader& loader, const Measured& measured) {
  const Stats stats = loader.stats();
  const auto images = static_cast<double>(measured.images);
  fmt::print(
      "rate      {:.0f} images/s, {:.2f} GB/s read, over {:.1f} s ({} images, the first batch not "
      "counted), {:.2f} CPU s per 1000\n",
      measured.seconds > 0 ? images / measured.seconds : 0.0, gigabytes_per_second(measured),
      measured.seconds, with_commas(measured.images),
      images > 0 ? measured.cpu_seconds * 1000 / images : 0.0);
  fmt::print("start     first batch {:.2f} s after the process began\n",
             measured.first_batch_seconds);
  for (const StageStats& stage : stats.stages) {
    const double total = stage.busy_seconds + stage.wait_seconds;
    fmt::print("stage     {:<9}{:3.0f} % busy, {} thread{}\n", stage.name,
               total > 0 ? 100 * stage.busy_seconds / total : 0.0, stage.thread_count,
               stage.thread_count == 1 ? "" : "s");
  }
  std::string paths;
  for (std::size_t i = 0; i < kPathCount; ++i) {
    if (stats.bytes_by_path[i] == 0) continue;
    paths += fmt::format("{}{} {}", paths.empty() ? "" : ", ", to_string(static_cast<Path>(i)),
                         human_bytes(stats.bytes_by_path[i]));
  }
  fmt::print("bytes     {}; {:.0f} CPU copies a byte on the way in\n", paths,
             stats.copies_per_byte());
  if (stats.shared_cache) {
    fmt::print(
        "cache     {} samples found, {} read and kept, {} read and not kept; {} of {} in use\n",
        stats.shared_cache->hits, stats.shared_cache->misses, stats.shared_cache->full,
        human_bytes(stats.shared_cache->filled_bytes),
        human_bytes(stats.shared_cache->limit_bytes));
  }
  if (stats.crop_indexed + stats.crop_index_refused > 0) {
    fmt::print(
        "crops     {} pictures decoded from their crop index, {} had one that does not fit\n",
        with_commas(stats.crop_indexed), with_commas(stats.crop_index_refused));
  }
  print_device(loader, measured);
  print_jpeg(stats.jpeg);
  fmt::print("memory    {} anonymous, {} planned; peak resident {}\n",
             human_bytes(measured.anonymous_bytes), human_bytes(loader.plan().memory_bytes),
             human_bytes(peak_resident_bytes()));
  if (stats.bad_samples + stats.padded_samples + stats.flagged_samples > 0) {
    fmt::print("samples   {} bad: {} replaced, {} blanked; {} padded, {} flagged\n",
               stats.bad_samples, stats.substituted_samples, stats.blanked_samples,
               stats.padded_samples, stats.flagged_samples);
  }
  for (const FallbackCount& each : stats.fallbacks) fmt::print("note      {}\n", to_text(each));
  for (const std::string& complaint : stats.complaints) fmt::print("flagged   {}\n", complaint);
  fmt::print("verdict   {}\n", loader.explain());
}

int run(const Options& options) {
  InterruptGuard interrupt;
  Loader loader(options.load.make());
  const InterruptGuard::Watch watch(interrupt, loader);
  options.load.begin_trace(loader);
  if (const std::string at = loader.metrics_address(); !at.empty()) {
    note("metrics are served on http://" + at + "/metrics");
  }
  const bool shows_plan = !options.as_json && !options.quiet;
  if (shows_plan) fmt::print("{}", loader.plan().to_text());
  if (!shows_plan) warn(loader.plan().warnings);
  std::fflush(stdout);
  const Measured measured = measure(loader, options);
  loader.stop_trace();
  if (options.as_json) {
    print_json(report(loader, measured, options));
  } else {
    print_text(loader, measured);
  }
  if (const std::string complaint = measured.check.complaint(); !complaint.empty()) {
    throw Error(ErrorCode::kCorruptData, "the batches are wrong: " + complaint);
  }
  return kGood;
}

}  // namespace

void add_bench(CLI::App& app) {
  CLI::App* bench = app.add_subcommand("bench", "Measure a part of the way, or all of it");
  bench->require_subcommand(1);
  add_bench_io(*bench);
  add_bench_files(*bench);
  add_bench_decode(*bench);
  add_bench_ceilings(*bench);
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      bench->add_subcommand("loader", "Load batches as fast as they come and throw them away");
  options->load.add_to(*command);
  options->load.add_device_to(*command);
  options->load.add_watch_to(*command);
  command->add_option("--seconds", options->seconds, "How long, from the first batch on")
      ->check(finite_number(0.001, 1e9))
      ->capture_default_str();
  command->add_option("--epochs", options->epochs, "Stop after this many epochs instead")
      ->check(whole_number(1));
  command->add_flag("--json", options->as_json, "Print JSON");
  command->add_flag("--no-plan", options->quiet, "Do not print the plan first");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
