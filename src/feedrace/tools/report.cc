// SPDX-License-Identifier: Apache-2.0
// feedrace report PATH: loads for a while and writes one page of what there was to see.

#include "feedrace/view/report.h"

#include <chrono>
#include <ctime>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/doctor/doctor.h"
#include "feedrace/formats/output_check.h"
#include "feedrace/formats/pending_file.h"
#include "feedrace/loader.h"
#include "feedrace/pipeline/input_files.h"
#include "feedrace/tools/array_file.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/contact_sheet.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/load_options.h"
#include "feedrace/tools/machine.h"
#include "feedrace/tools/progress.h"
#include "feedrace/view/loaders.h"
#include "feedrace/watch/counters.h"

namespace feedrace::tools {
namespace {

using Clock = std::chrono::steady_clock;

// Points of the lines over time; fewer where a batch takes longer than a stretch.
constexpr double kStretches = 60;
constexpr std::size_t kPictures = 24;
constexpr std::size_t kPictureSide = 96;
constexpr std::size_t kQuarantineLines = 20;

struct Options {
  LoadOptions load;
  std::string file = "feedrace-report.html";
  double seconds = 10;
};

/// What a loader in this process shows, in the form in which others are looked at.
view::LoaderLook look_at(const Loader& loader) {
  const std::vector<QueueLevel> queues = loader.queue_levels();
  watch::Snapshot snapshot{loader.stats(), {}, loader.explain(), {}};
  for (const QueueLevel& queue : queues) {
    snapshot.levels.emplace_back(queue.name.c_str(), queue.length);
  }
  return {"", watch::to_json(snapshot), std::nullopt};
}

/// A loader that is looked at while it runs.
class Observed {
 public:
  Observed(Loader& loader, const Pipeline& pipeline, const Options& options)
      : loader_(loader), pipeline_(pipeline), options_(options) {}

  /// Loads until the time is over, or at an error of the data, which the page then tells.
  void load() {
    Progress progress("images", 0);
    try {
      while (seconds_ < options_.seconds) {
        const std::optional<Batch> batch = loader_.next();
        if (batch) take(*batch);
        progress.update(images_, seconds_ / options_.seconds);
      }
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kCancelled) throw;
      error_ = error.what();
      if (!first_) first_ = before_ = look_at(loader_);
    }
    last_ = look_at(loader_);
    cpu_seconds_ = process_cpu_seconds() - cpu_seconds_;
  }

  void fill(view::Report& report) const {
    report.stretches = stretches_;
    report.whole = view::loader_between(*first_, *last_);
    report.told = last_->told;
    report.first_batch_seconds = first_batch_seconds_;
    report.pictures = pictures_;
    const auto images = static_cast<double>(images_);
    report.cpu_seconds_per_1000 = images > 0 ? cpu_seconds_ * 1000 / images : 0;
    report.verdict = loader_.verdict();
    report.error = error_;
  }

 private:
  void take(const Batch& batch) {
    if (!first_) {
      first_batch_seconds_ = seconds_since_process_start();
      pictures_ =
          thumbnails(batch, pipeline_, loader_.dataset().classes(), kPictures, kPictureSide);
      first_ = before_ = look_at(loader_);
      start_ = stretch_begun_ = Clock::now();
      cpu_seconds_ = process_cpu_seconds();
      return;
    }
    images_ += batch.size();
    const auto now = Clock::now();
    seconds_ = std::chrono::duration<double>(now - start_).count();
    const double stretch = std::chrono::duration<double>(now - stretch_begun_).count();
    if (stretch < options_.seconds / kStretches) return;
    view::LoaderLook look = look_at(loader_);
    stretches_.push_back(view::loader_between(*before_, look));
    stretches_.back()["seconds"] = seconds_;
    before_ = std::move(look);
    stretch_begun_ = now;
  }

  Loader& loader_;
  const Pipeline& pipeline_;
  const Options& options_;
  std::optional<view::LoaderLook> first_;
  std::optional<view::LoaderLook> before_;
  std::optional<view::LoaderLook> last_;
  std::vector<nlohmann::ordered_json> stretches_;
  std::vector<view::Thumbnail> pictures_;
  Clock::time_point start_;
  Clock::time_point stretch_begun_;
  double seconds_ = 0;
  double first_batch_seconds_ = 0;
  double cpu_seconds_ = 0;
  std::uint64_t images_ = 0;
  std::string error_;
};

std::string now_text() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  char text[32] = "";
  if (::localtime_r(&now, &local) != nullptr) {
    std::strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  }
  return text;
}

std::vector<std::string> first_lines(const std::string& path) {
  std::vector<std::string> lines;
  if (path.empty()) return lines;
  std::ifstream file(path);
  for (std::string line; lines.size() < kQuarantineLines && std::getline(file, line);) {
    lines.push_back(line);
  }
  return lines;
}

/// Patterns of shards are no paths that the doctor could look at.
doctor::Findings examine(const std::vector<std::string>& sources) {
  try {
    return doctor::examine({sources, "/"});
  } catch (const Error&) {
    return doctor::examine({});
  }
}

int run(const Options& options) {
  InterruptGuard interrupt;
  const LoaderOptions made = options.load.make();
  const std::vector<std::string> sources = pipeline::input_files(made, nullptr).sources;
  view::Report report;
  {
    Loader loader(made);
    formats::check_output("--out", options.file, pipeline::input_files(made, &loader.dataset()),
                          view::is_report);
    if (const Result<void> open = formats::check_writable(options.file); !open) raise(open.error());
    const InterruptGuard::Watch watch(interrupt, loader);
    options.load.begin_trace(loader);
    Observed observed(loader, made.pipeline, options);
    observed.load();
    loader.stop_trace();
    observed.fill(report);
    report.plan = loader.plan().to_text();
  }
  report.title = fmt::format("{}", fmt::join(sources, " "));
  report.when = now_text();
  report.quarantine = first_lines(made.quarantine_file);
  report.picture_note = "No pictures: nothing is decoded, or batches go to a GPU.";
  report.findings = examine(sources);
  const Machine machine = describe_machine(sources.front());
  report.machine = {{"cpu", machine.cpu},
                    {"kernel", machine.kernel},
                    {"file system of the data", machine.file_system},
                    {"peak resident memory", human_bytes(peak_resident_bytes())},
                    {"feedrace", FEEDRACE_VERSION}};
  const std::string page = view::to_html(report);
  write_whole(options.file, {}, std::as_bytes(std::span(page)));
  fmt::print("{}: {}{}\n", printable(options.file),
             report.error.empty() ? "" : "the run ended by an error: " + report.error + "; ",
             report.verdict.to_text());
  return report.error.empty() ? kGood : kBadData;
}

}  // namespace

void add_report(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "report", "Load for a while, and write one page (HTML) of what there was to see");
  options->load.add_to(*command);
  options->load.add_device_to(*command);
  options->load.add_watch_to(*command);
  command->add_option("--out", options->file, "The page")
      ->check(not_empty())
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long, from the first batch on")
      ->check(finite_number(0.1, 1e6))
      ->capture_default_str();
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
