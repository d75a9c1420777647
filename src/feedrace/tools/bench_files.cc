// SPDX-License-Identifier: Apache-2.0
// feedrace bench files FOLDER...: the ways to open, read and close small files, side by side.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/diagnose/io_paths.h"
#include "feedrace/diagnose/whole_files.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/json_text.h"

namespace feedrace::tools {
namespace {

using diagnose::FilesJob;
using diagnose::FilesWay;
using diagnose::IoRun;

struct Options {
  std::vector<std::string> folders;
  FilesJob job;
  std::size_t limit_count = 100'000;
  std::size_t round_count = 1;
  bool is_warm = false;
  bool as_json = false;
};

struct Line {
  FilesWay way;
  std::string reason;
  ErrorCode code = ErrorCode::kUnsupported;
  std::vector<double> rates;   // Files a second, of each round.
  std::vector<double> cpu_us;  // A file.
  IoRun last;
};

void measure(Line& line, const FilesJob& job, bool is_cold) {
  const auto run = diagnose::measure_files(line.way, job, is_cold, line.rates.empty());
  if (!run) {
    line.reason = run.error().message;
    line.code = run.error().code;
    return;
  }
  const auto files = static_cast<double>(run->counts.reads);
  line.rates.push_back(files / run->seconds);
  line.cpu_us.push_back(run->cpu_seconds * 1e6 / files);
  line.last = *run;
}

double gigabytes_a_second(const Line& line) {
  const double mean =
      static_cast<double>(line.last.counts.bytes) / static_cast<double>(line.last.counts.reads);
  return diagnose::quantile_of(line.rates, 0.5) * mean * 1e-9;
}

double per_file(const Line& line, std::uint64_t count) {
  return static_cast<double>(count) / static_cast<double>(line.last.counts.reads);
}

nlohmann::ordered_json line_json(const Line& line) {
  nlohmann::ordered_json json = {{"path", line.way.name}};
  if (!line.reason.empty()) {
    json["reason"] = printable(line.reason);
    return json;
  }
  const auto& counts = line.last.counts;
  json["files_per_second"] = diagnose::quantile_of(line.rates, 0.5);
  json["cpu_us_per_file"] = diagnose::quantile_of(line.cpu_us, 0.5);
  json["gb_per_second"] = gigabytes_a_second(line);
  json["copies_per_byte"] =
      static_cast<double>(counts.copied_bytes) / static_cast<double>(counts.bytes);
  json["system_calls_per_file"] = per_file(line, counts.system_calls);
  json["context_switches_per_file"] = per_file(line, line.last.context_switches);
  json["latency_us"] = {{"p50", static_cast<double>(counts.latency.quantile_ns(0.5)) * 1e-3},
                        {"p99", static_cast<double>(counts.latency.quantile_ns(0.99)) * 1e-3}};
  json["files_per_second_rounds"] = line.rates;
  json["cpu_us_per_file_rounds"] = line.cpu_us;
  return json;
}

std::string line_text(const Line& line) {
  if (!line.reason.empty()) {
    return fmt::format("{:<16}n/a: {}\n", line.way.name, printable(line.reason));
  }
  return fmt::format("{:<16}{:>9.0f}{:>8.2f}{:>12.1f}{:>12.2f}{:>12.2f}\n", line.way.name,
                     diagnose::quantile_of(line.rates, 0.5), gigabytes_a_second(line),
                     diagnose::quantile_of(line.cpu_us, 0.5),
                     per_file(line, line.last.counts.system_calls),
                     per_file(line, line.last.context_switches));
}

int run(const Options& options) {
  const InterruptGuard interrupt;
  FilesJob job = diagnose::collect_whole_files(options.folders, options.limit_count);
  job.queue_depth = options.job.queue_depth;
  job.thread_count = std::min(options.job.thread_count, job.queue_depth);
  std::vector<Line> lines;
  for (const FilesWay& way : diagnose::files_ways()) {
    Line line;
    line.way = way;
    lines.push_back(std::move(line));
  }
  for (std::size_t round = 0; round < options.round_count; ++round) {
    for (Line& line : lines) {
      if (line.reason.empty()) measure(line, job, !options.is_warm);
    }
  }
  int code = kGood;
  for (const Line& line : lines) {
    if (line.reason.empty() || line.code == ErrorCode::kUnsupported) continue;
    warn({line.way.name + ": " + printable(line.reason)});
    code = exit_of(line.code);
  }
  if (options.as_json) {
    nlohmann::ordered_json report = nlohmann::ordered_json::array();
    for (const Line& line : lines) report.push_back(line_json(line));
    print_json(report);
    return code;
  }
  fmt::print(
      "{} files, {} on average, {}, in random order; {} in flight ({} threads where reads "
      "block)\n",
      with_commas(job.paths.size()), human_bytes(job.size_bytes / job.paths.size()),
      options.is_warm ? "warm" : "cold", job.queue_depth, job.thread_count);
  fmt::print("{:<16}{:>9}{:>8}{:>12}{:>12}{:>12}\n", "path", "files/s", "GB/s", "CPU us/file",
             "calls/file", "switches");
  for (const Line& line : lines) fmt::print("{}", line_text(line));
  return code;
}

}  // namespace

void add_bench_files(CLI::App& bench) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      bench.add_subcommand("files", "Open, read and close small files in every way there is");
  command->add_option("folder", options->folders, "Folders of small files")->required();
  command->add_option("--queue-depth", options->job.queue_depth, "Files in flight")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  command->add_option("--threads", options->job.thread_count, "Where reads block")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command->add_option("--limit", options->limit_count, "Read no more files than this")
      ->check(whole_number(1))
      ->capture_default_str();
  command->add_option("--rounds", options->round_count, "Measure all ways so often; medians")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command->add_flag("--warm", options->is_warm, "Out of the page cache instead of past it");
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
