// SPDX-License-Identifier: Apache-2.0
// feedrace warm PATH: brings into memory what a loader would read.

#include "feedrace/host/warm.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/formats/parallel.h"
#include "feedrace/host/file_system.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/progress.h"
#include "feedrace/tools/size_text.h"

namespace feedrace::tools {
namespace {

constexpr std::uint64_t kNoLimit = ~std::uint64_t{0};
constexpr std::uint64_t kBytesPerMb = 1'000'000;

struct Options {
  DataOptions data;
  std::optional<std::uint64_t> limit_bytes;
  std::size_t thread_count = 4;
  bool only_checks = false;
  bool as_json = false;
};

/// What a loader would read.
struct Wanted {
  std::vector<host::WarmFile> files;  // In stored order, without those that are in memory.
  std::uint64_t in_memory_files = 0;
  std::uint64_t in_memory_bytes = 0;
  std::string in_memory_type;  // "tmpfs"; empty: none is.
};

struct Report {
  std::uint64_t limit_bytes = kNoLimit;
  bool has_own_limit = false;
  host::WarmOutcome outcome;
  double seconds = 0;
  Result<std::uint64_t> cached_bytes = std::uint64_t{0};
};

double percent(std::uint64_t part, std::uint64_t whole) {
  return whole == 0 ? 100 : 100 * static_cast<double>(part) / static_cast<double>(whole);
}

std::string files_text(std::uint64_t count) {
  return fmt::format("{} file{}", with_commas(count), count == 1 ? "" : "s");
}

/// Each once, though a list may name a file twice.
std::vector<std::string> paths_of(const formats::Dataset& dataset) {
  std::vector<std::string> paths = dataset.shards();
  for (std::uint64_t sample = 0; sample < dataset.size(); ++sample) {
    if (dataset.place(sample).shard == formats::Place::kOwnFile) {
      paths.push_back(dataset.path(sample));
    }
  }
  std::unordered_set<std::string_view> seen;
  std::vector<bool> is_first(paths.size());
  for (std::size_t i = 0; i < paths.size(); ++i) is_first[i] = seen.insert(paths[i]).second;
  seen.clear();
  std::size_t kept = 0;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    if (is_first[i] && kept++ != i) paths[kept - 1] = std::move(paths[i]);
  }
  paths.resize(kept);
  return paths;
}

/// A file that can't be asked has size 0; reading it will say why.
Wanted look_at(std::vector<std::string> paths, std::size_t thread_count) {
  std::vector<host::WarmFile> files(paths.size());
  std::vector<dev_t> devices(paths.size());
  formats::parallel_for(paths.size(), thread_count, [&](std::size_t i) {
    struct stat info{};
    files[i].path = std::move(paths[i]);
    if (stat(files[i].path.c_str(), &info) != 0) return;
    files[i].size_bytes = static_cast<std::uint64_t>(info.st_size);
    devices[i] = info.st_dev;
  });
  Wanted wanted;
  std::map<dev_t, std::string> memory_types;  // Of a device: empty for one that is not memory.
  for (std::size_t i = 0; i < files.size(); ++i) {
    auto known = memory_types.find(devices[i]);
    if (known == memory_types.end()) {
      const auto system = host::probe_file_system(files[i].path);
      const std::string type = system && system->is_in_memory ? system->type : "";
      known = memory_types.emplace(devices[i], type).first;
    }
    if (known->second.empty()) {
      wanted.files.push_back(std::move(files[i]));
    } else {
      wanted.in_memory_type = known->second;
      wanted.in_memory_bytes += files[i].size_bytes;
      ++wanted.in_memory_files;
    }
  }
  return wanted;
}

/// The rest of the memory is for the program that will read the data.
std::uint64_t default_limit_bytes() {
  constexpr std::uint64_t kParts = 5;
  const auto available = available_memory_bytes();
  return available ? *available / kParts * (kParts - 1) : kNoLimit;
}

nlohmann::ordered_json json_of(const Wanted& wanted, const host::Warming& warming,
                               const Report& report, const Options& options) {
  nlohmann::ordered_json json = {
      {"files", warming.planned_files() + warming.left_out_files() + wanted.in_memory_files},
      {"bytes", warming.total_bytes() + wanted.in_memory_bytes},
      {"in_memory_files", wanted.in_memory_files},
      {"in_memory_bytes", wanted.in_memory_bytes},
      {"limit_bytes", nullptr},
      {"planned_files", warming.planned_files()},
      {"planned_bytes", warming.planned_bytes()},
      {"left_out_files", warming.left_out_files()},
      {"left_out_bytes", warming.total_bytes() - warming.planned_bytes()}};
  if (report.limit_bytes != kNoLimit) json["limit_bytes"] = report.limit_bytes;
  if (!options.only_checks) {
    json["read_bytes"] = report.outcome.read_bytes;
    json["seconds"] = report.seconds;
    json["threads"] = options.thread_count;
    json["failed_files"] = report.outcome.failed_files;
  }
  json["cached_bytes"] = nullptr;
  if (report.cached_bytes) {
    json["cached_bytes"] = *report.cached_bytes;
  } else {
    json["cached_unknown"] = report.cached_bytes.error().message;
  }
  return json;
}

void print_text(const Wanted& wanted, const host::Warming& warming, const Report& report,
                const Options& options) {
  if (wanted.in_memory_files > 0) {
    fmt::print("in memory {}, {}: {} keeps files there, so there is nothing to warm\n",
               files_text(wanted.in_memory_files), human_bytes(wanted.in_memory_bytes),
               wanted.in_memory_type);
    if (warming.planned_files() + warming.left_out_files() == 0) return;
  }
  if (!options.only_checks) {
    const auto read_bytes = report.outcome.read_bytes;
    const double rate = static_cast<double>(read_bytes) / std::max(report.seconds, 1e-9);
    fmt::print("read      {} of {} in {:.1f} s, {}/s\n", human_bytes(read_bytes),
               files_text(warming.planned_files()), report.seconds,
               human_bytes(static_cast<std::uint64_t>(rate)));
  }
  if (report.cached_bytes) {
    fmt::print("resident  {} of {} ({:.1f} %)\n", human_bytes(*report.cached_bytes),
               human_bytes(warming.planned_bytes()),
               percent(*report.cached_bytes, warming.planned_bytes()));
  } else {
    fmt::print("resident  n/a: {}\n", report.cached_bytes.error().message);
  }
  if (warming.planned_bytes() < warming.total_bytes()) {
    fmt::print("left out  {} and {} of {}, by {} of {}\n", files_text(warming.left_out_files()),
               human_bytes(warming.total_bytes() - warming.planned_bytes()),
               human_bytes(warming.total_bytes()),
               report.has_own_limit ? "--limit" : "the limit of 80 % of available memory",
               human_bytes(report.limit_bytes));
  }
}

/// The exit code, with a word about what is wrong.
Exit judge(const Report& report) {
  if (const auto& failure = report.outcome.failure) {
    warn({fmt::format("{} could not be read, one of them: {}",
                      files_text(report.outcome.failed_files), failure->message)});
    return exit_of(failure->code);
  }
  constexpr double kEnoughPercent = 90;
  if (!report.cached_bytes) return kGood;
  const double stayed = percent(*report.cached_bytes, report.outcome.read_bytes);
  if (stayed >= kEnoughPercent) return kGood;
  warn(
      {fmt::format("only {:.0f} % of what was read stayed in memory; free memory, raise the "
                   "container's limit, or read less with --limit",
                   stayed)});
  return kBadData;
}

/// Reads, and looks at what came of it.
void warm(const host::Warming& warming, std::size_t thread_count, Report& report) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  {
    Progress progress("warm, MB", warming.planned_bytes() / kBytesPerMb);
    report.outcome = warming.read(thread_count,
                                  [&](std::uint64_t done) { progress.update(done / kBytesPerMb); });
  }
  report.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
}

Result<std::uint64_t> look_at_cache(const host::Warming& warming, std::size_t thread_count) {
  Progress progress("check, MB", warming.planned_bytes() / kBytesPerMb);
  return warming.cached_bytes(thread_count,
                              [&](std::uint64_t done) { progress.update(done / kBytesPerMb); });
}

int run(const Options& options) {
  // Without a loader to end in order, a signal ends the process at once: a cache may stay half
  // full.
  const InterruptGuard interrupt;
  formats::OpenOptions format = options.data.format;
  if (options.only_checks) format.store_index = formats::StoreIndex::kNever;
  if (format.label_field == "none") format.label_field.clear();
  const auto dataset = formats::open_dataset(options.data.sources, format);
  warn(dataset->warnings());

  Wanted wanted = look_at(paths_of(*dataset), options.thread_count);
  Report report;
  report.has_own_limit = options.limit_bytes.has_value();
  if (options.limit_bytes) {
    report.limit_bytes = *options.limit_bytes;
  } else if (!options.only_checks) {
    report.limit_bytes = default_limit_bytes();
  }
  const host::Warming warming(std::move(wanted.files), report.limit_bytes);
  if (!options.only_checks) warm(warming, options.thread_count, report);
  report.cached_bytes = look_at_cache(warming, options.thread_count);
  if (options.as_json) {
    print_json(json_of(wanted, warming, report, options));
  } else {
    print_text(wanted, warming, report, options);
  }
  if (!options.only_checks) return judge(report);
  // It was asked for nothing else.
  return report.cached_bytes ? kGood : exit_of(report.cached_bytes.error().code);
}

}  // namespace

void add_warm(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("warm", "Read into memory what a loader would read, ahead of it");
  options->data.add_to(*command);
  command
      ->add_option("--limit", options->limit_bytes,
                   "Stop after so much, such as 10GB; 80 % of available memory if left out")
      ->transform(size_value());
  command->add_option("--threads", options->thread_count, "That read")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command->add_flag("--check", options->only_checks,
                    "Read nothing; say how much is in memory, of all or of --limit");
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
