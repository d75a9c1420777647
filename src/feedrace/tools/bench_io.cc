// SPDX-License-Identifier: Apache-2.0
// feedrace bench io PATH...: the ways to read a file on this machine, side by side.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/diagnose/fio.h"
#include "feedrace/diagnose/io_files.h"
#include "feedrace/diagnose/io_paths.h"
#include "feedrace/diagnose/io_table.h"
#include "feedrace/host/file_system.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/device_target.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/machine.h"
#include "feedrace/tools/progress.h"
#include "feedrace/tools/size_text.h"

namespace feedrace::tools {
namespace {

using diagnose::DeviceRead;
using diagnose::Fio;
using diagnose::IoComparison;
using diagnose::IoFigures;
using diagnose::IoJob;
using diagnose::IoLine;
using diagnose::IoPath;
using diagnose::IoRow;
using diagnose::quantile_of;

struct Options {
  std::vector<std::string> paths;
  IoJob job;
  std::optional<std::size_t> thread_count;
  std::uint64_t limit_bytes = std::uint64_t{4} << 30;
  std::vector<std::string> rows;
  std::string device = "auto";
  std::vector<std::string> cuda_plugin;
  std::vector<std::string> cuda_libraries;
  std::size_t round_count = 1;
  std::size_t pair_count = 5;
  bool is_sequential = false;
  bool compares_fio = false;
  bool as_json = false;
};

CLI::Validator block_size() {
  const auto check = [](const std::string& text) {
    constexpr std::uint64_t kUnit = IoJob::kMinBlockBytes;
    constexpr std::uint64_t kMax = std::uint64_t{1} << 30;
    const std::uint64_t bytes = std::stoull(text);  // `size_value` has made it a number.
    if (bytes >= kUnit && bytes <= kMax && bytes % kUnit == 0) return std::string();
    const std::uint64_t nearest =
        std::clamp((bytes / kUnit + (bytes % kUnit >= kUnit / 2 ? 1 : 0)) * kUnit, kUnit, kMax);
    return fmt::format("{} is not a multiple of 512 bytes from 512 to 1G; {} would do", bytes,
                       nearest);
  };
  return {check, ""};
}

/// Without a GPU its rows are listed all the same, with the reason; who wants none has none.
std::vector<IoPath> paths_of(const Options& options) {
  const bool has_target = options.device != "cpu";
  std::vector<IoPath> paths =
      has_target ? diagnose::io_paths(
                       open_target(options.device, options.cuda_plugin, options.cuda_libraries))
                 : diagnose::io_paths();
  if (!has_target) std::erase_if(paths, [](const IoPath& path) { return path.device_read; });
  return paths;
}

std::vector<IoPath> wanted_paths(const Options& options) {
  const std::vector<std::string>& names = options.rows;
  std::vector<IoPath> paths = paths_of(options);
  if (names.empty()) return paths;
  for (const std::string& name : names) {
    const auto is_it = [&](const IoPath& path) { return path.name == name; };
    if (std::any_of(paths.begin(), paths.end(), is_it)) continue;
    std::string all;
    for (const IoPath& path : paths) all += (all.empty() ? "" : ", ") + path.name;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--rows: there is no {}; there are {}", printable(name), all));
  }
  std::erase_if(paths, [&](const IoPath& path) {
    return std::find(names.begin(), names.end(), path.name) == names.end();
  });
  return paths;
}

/// Of all rows; those with copies to a GPU hold as many blocks again that are on their way there.
IoJob job_of(const Options& options, const std::vector<IoPath>& paths) {
  IoJob job = options.job;
  job.is_random = !options.is_sequential;
  job.thread_count = std::min(options.thread_count.value_or(IoJob{}.thread_count), job.queue_depth);
  const bool copies = std::any_of(paths.begin(), paths.end(), [](const IoPath& path) {
    return path.device_read == DeviceRead::kPinned && path.missing.empty();
  });
  const std::uint64_t needed = std::uint64_t{job.queue_depth} * job.block_bytes * (copies ? 2 : 1);
  const auto available = available_memory_bytes();
  if (available && needed > *available / 2) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} reads of {} in flight need {}, half of the free memory is {}; "
                            "lower --queue-depth or --block-size",
                            job.queue_depth, human_bytes(job.block_bytes), human_bytes(needed),
                            human_bytes(*available / 2)));
  }
  job.files = diagnose::collect_files(options.paths, job.block_bytes, options.limit_bytes);
  return job;
}

void measure(IoLine& line, const IoJob& job) {
  const bool is_first = line.rounds.empty();
  const IoRow row = diagnose::measure_row(line.path, job, line.is_cold, /*checks=*/is_first);
  line.reason = row.reason;
  line.code = row.code;
  line.pages_reason = row.pages_reason;
  line.way = row.way;
  if (row.reason.empty()) line.rounds.push_back(diagnose::figures_of(row));
}

/// Rounds, so that a device that slows down or speeds up does so for every row.
void measure_all(std::vector<IoLine>& lines, const Options& options, const IoJob& job) {
  Progress progress("rows", lines.size() * options.round_count);
  std::uint64_t done = 0;
  for (std::size_t round = 0; round < options.round_count; ++round) {
    for (const bool is_cold : {true, false}) {  // The warm ones share what is filled once.
      for (IoLine& line : lines) {
        if (line.is_cold != is_cold) continue;
        IoJob again = job;
        again.seed = round + 1;
        if (line.reason.empty()) measure(line, again);
        progress.update(++done);
      }
    }
  }
}

struct Pair {
  IoFigures ours;
  diagnose::FioRun fio;
};

/// One run each. Which is first changes from pair to pair: many disks let whoever comes after a
/// pause read faster for a while.
Result<Pair> run_pair(const IoLine& line, const Fio& fio, const IoJob& job, bool is_fio_first) {
  Result<diagnose::FioRun> other = diagnose::FioRun{};
  if (is_fio_first) other = fio.run(line.path, job, line.is_cold);
  if (!other) return other.error();
  const IoRow row = diagnose::measure_row(line.path, job, line.is_cold, /*checks=*/false);
  if (!row.reason.empty()) return Failure{row.code, row.reason};
  if (!is_fio_first) other = fio.run(line.path, job, line.is_cold);
  if (!other) return other.error();
  return Pair{diagnose::figures_of(row), *other};
}

IoComparison compare(const IoLine& line, const Fio& fio, const IoJob& job, std::size_t pair_count) {
  IoComparison comparison;
  const auto arguments = fio.arguments(line.path, job, line.is_cold);
  if (!arguments) return {arguments.error().message, {}, {}, {}};
  comparison.arguments = *arguments;
  for (std::size_t i = 0; i < pair_count; ++i) {
    IoJob again = job;
    again.seed = i + 1;
    const auto pair = run_pair(line, fio, again, /*is_fio_first=*/i % 2 == 1);
    if (!pair) return {pair.error().message, {}, {}, {}};
    comparison.ratios.push_back(pair->ours.gb_per_second / pair->fio.gb_per_second);
    if (pair->fio.cpu_seconds_per_gb > 0) {  // fio counts in milliseconds; a short job has none.
      comparison.cpu_ratios.push_back(pair->ours.cpu_seconds_per_gb / pair->fio.cpu_seconds_per_gb);
    }
  }
  return comparison;
}

void compare_all(std::vector<IoLine>& lines, const Result<Fio>& fio, const Options& options,
                 const IoJob& job) {
  Progress progress("rows compared with fio", lines.size());
  std::uint64_t done = 0;
  for (IoLine& line : lines) {
    if (!line.reason.empty()) {
      line.fio = IoComparison{"the row itself is n/a", {}, {}, {}};
    } else {
      line.fio = fio ? compare(line, *fio, job, options.pair_count)
                     : IoComparison{fio.error().message, {}, {}, {}};
    }
    progress.update(++done);
  }
}

// JSON.

nlohmann::ordered_json fio_json(const IoComparison& fio) {
  if (!fio.reason.empty()) return {{"reason", printable(fio.reason)}};
  nlohmann::ordered_json arguments = nlohmann::ordered_json::array();
  for (const std::string& argument : fio.arguments) arguments.push_back(printable(argument));
  return {{"ratios", fio.ratios}, {"cpu_ratios", fio.cpu_ratios}, {"arguments", arguments}};
}

nlohmann::ordered_json line_json(const IoLine& line) {
  nlohmann::ordered_json json = {{"path", line.path.name}, {"state", line.state()}};
  if (!line.reason.empty()) {
    json["reason"] = printable(line.reason);
    return json;
  }
  const IoFigures figures = diagnose::median_of(line.rounds);
  json["gb_per_second"] = figures.gb_per_second;
  json["iops"] = figures.reads_per_second;
  json["latency_us"] = {{"p50", figures.p50_us}, {"p99", figures.p99_us}, {"max", figures.max_us}};
  json["cpu_seconds_per_gb"] = figures.cpu_seconds_per_gb;
  json["context_switches_per_gb"] = figures.context_switches_per_gb;
  json["system_calls_per_gb"] = figures.system_calls_per_gb;
  json["copies_per_byte"] = figures.copies_per_byte;
  if (line.path.device_read) {
    json["device"] = line.path.target.name;
    json["device_copies_per_byte"] = figures.device_copies_per_byte;
    json["way"] = nullptr;
    if (!line.way.empty()) json["way"] = line.way;
  }
  json["pages_left"] = nullptr;
  if (figures.pages_left) json["pages_left"] = static_cast<std::uint64_t>(*figures.pages_left);
  if (!figures.pages_left) json["pages_reason"] = printable(line.pages_reason);
  json["gb_per_second_rounds"] = values_of(line.rounds, &IoFigures::gb_per_second);
  if (!line.fio) return json;
  json["fio_ratio"] = nullptr;
  json["fio_cpu_ratio"] = nullptr;
  if (!line.fio->ratios.empty()) json["fio_ratio"] = quantile_of(line.fio->ratios, 0.5);
  if (!line.fio->cpu_ratios.empty()) json["fio_cpu_ratio"] = quantile_of(line.fio->cpu_ratios, 0.5);
  json["fio"] = fio_json(*line.fio);
  return json;
}

// Text.

std::string size_text(std::uint64_t bytes) {
  if (bytes % (1 << 20) == 0) return fmt::format("{} MiB", bytes >> 20);
  if (bytes % (1 << 10) == 0) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} bytes", bytes);
}

std::string title(const IoJob& job) {
  const std::string& path = job.files.front().path;
  const Machine machine = describe_machine(path);
  std::string place = machine.file_system;
  if (const auto facts = host::probe_file_system(path)) {
    place = facts->type == "block"        ? printable(path)
            : facts->mount_source.empty() ? facts->type
                                          : facts->type + " on " + printable(facts->mount_source);
  }
  return fmt::format(
      "{}, {} cores, Linux {}; {}\n{} file{}, {}; {} reads of {}, {} in flight ({} thread{} where "
      "reads block)\n",
      machine.cpu, usable_cores(), machine.kernel, place, job.files.size(),
      job.files.size() == 1 ? "" : "s", human_bytes(job.size_bytes()),
      job.is_random ? "random" : "sequential", size_text(job.block_bytes), job.queue_depth,
      job.thread_count, job.thread_count == 1 ? "" : "s");
}

int exit_code_of(const std::vector<IoLine>& lines) {
  int exit = kGood;
  for (const IoLine& line : lines) {
    if (line.reason.empty() || line.code == ErrorCode::kUnsupported) continue;
    warn({fmt::format("{} ({}): {}", line.name(), line.state(), printable(line.reason))});
    if (exit != kBadData) exit = exit_of(line.code);
  }
  return exit;
}

int run(const Options& options) {
  const InterruptGuard interrupt;
  const std::vector<IoPath> paths = wanted_paths(options);
  const IoJob job = job_of(options, paths);
  if (!options.as_json) fmt::print("{}", title(job));
  std::fflush(stdout);
  std::vector<IoLine> lines = diagnose::lines_of(paths);
  measure_all(lines, options, job);
  if (!options.as_json) fmt::print("{}", diagnose::io_table(lines));
  std::fflush(stdout);
  if (options.compares_fio) {
    const auto fio = Fio::find();
    compare_all(lines, fio, options, job);
    if (!options.as_json) {
      fmt::print("\n{}", diagnose::fio_table(lines, fio ? fio->version() : "fio"));
    }
  }
  if (options.as_json) {
    nlohmann::ordered_json report = nlohmann::ordered_json::array();
    for (const IoLine& line : lines) report.push_back(line_json(line));
    print_json(report);
  }
  return exit_code_of(lines);
}

/// A number of bytes with an optional unit of 1,024: 256K, 1M.
CLI::Option* add_size(CLI::App& command, const std::string& name, std::uint64_t& value,
                      const std::string& description) {
  return command.add_option(name, value, description)->transform(size_value(SizePrefix::kBinary));
}

}  // namespace

void add_bench_io(CLI::App& bench) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand("io", "Read files in every way that this machine has");
  IoJob& job = options->job;
  command->add_option("path", options->paths, "Files, block devices, or folders of large files")
      ->required();
  add_size(*command, "--block-size", job.block_bytes, "Of a read, such as 256K or 1M [256K]")
      ->check(block_size());
  command->add_option("--queue-depth", job.queue_depth, "Reads in flight")
      ->check(whole_number(1, storage::BackendOptions::kMaxQueueDepth))
      ->capture_default_str();
  command->add_option("--threads", options->thread_count, "Where reads block: threads [8]")
      ->check(whole_number(1, 1024));
  bool* const is_sequential = &options->is_sequential;
  CLI::Option* random =
      command->add_flag_callback("--random", [] {}, "Blocks in random order, as by default");
  command->add_flag("--sequential", *is_sequential, "Blocks from front to end")->excludes(random);
  command->add_option("--seconds", job.seconds, "A row")
      ->check(finite_number(0.01, 1e6))
      ->capture_default_str();
  add_size(*command, "--size", options->limit_bytes, "Read no more than the first so much [4G]");
  command->add_option("--rows", options->rows, "Only these paths, such as mmap,uring+defer")
      ->delimiter(',');
  command
      ->add_option("--device", options->device,
                   "Where rows with copies to a GPU end: cuda, cuda:N, auto (GPU 0, or the reason "
                   "instead of figures), or cpu: without these rows")
      ->check(not_empty())
      ->capture_default_str();
  add_plugin_places(*command, options->cuda_plugin, options->cuda_libraries);
  command->add_option("--rounds", options->round_count, "Measure all rows so often; medians")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->add_flag("--compare-fio", options->compares_fio, "Let fio do the same, in turns");
  command->add_option("--pairs", options->pair_count, "With --compare-fio: turns a row")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
