// SPDX-License-Identifier: Apache-2.0
// feedrace bench decode PATH: JPEG decoding, ours beside libjpeg-turbo, every pixel compared first.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/diagnose/decode_comparison.h"
#include "feedrace/diagnose/io_paths.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/machine.h"
#include "feedrace/tools/picture_files.h"
#include "feedrace/tools/progress.h"
#include "feedrace/transform/fused_head.h"
#include "feedrace/transform/step_draw.h"

namespace feedrace::tools {
namespace {

using diagnose::DecodeComparison;
using diagnose::DecodeRound;
using diagnose::DecodeSteps;
using diagnose::DecodeWork;
using diagnose::kDecodeWorks;

constexpr std::size_t kFewestRounds = 3;
constexpr const char* kNoIndex =
    "none of these pictures takes a crop index: too small, restart markers in each row, or not "
    "ours";

struct Options {
  std::string path;
  std::uint64_t limit_count = 1000;
  std::uint64_t seed = 0;
  double seconds = 10;
  bool with_steps = false;
  bool as_json = false;
};

struct Spread {
  double median = 0;
  double least = 0;
  double most = 0;
};

Spread spread_of(const std::vector<double>& values) {
  return {diagnose::quantile_of(values, 0.5), diagnose::quantile_of(values, 0),
          diagnose::quantile_of(values, 1)};
}

/// The recipe's crop of sample number `sample`, as a loader of this seed draws it in its first
/// epoch.
diagnose::DecodePlan plan_of(const Pipeline& pipeline, const decode::ImageInfo& info,
                             const transform::SampleKey& key) {
  const auto streams = transform::streams_of(pipeline.steps);
  transform::FusedHead head({info.width_px, info.height_px});
  for (std::size_t i = 0; i < pipeline.steps.size(); ++i) {
    const auto drawn = transform::draw_step(pipeline.steps[i], streams[i], head.output(), key);
    if (!drawn) raise(drawn.error());
    head.add(*drawn);
  }
  return {head.crop(), {head.resize(), head.flip()}};
}

/// Nothing for one of several that can't be read: others can be measured.
std::optional<std::vector<std::byte>> read_or_leave_out(const PictureFiles& files, std::size_t i) {
  try {
    return files.read(i);
  } catch (const Error& error) {
    const bool is_file = error.code() == ErrorCode::kIo || error.code() == ErrorCode::kNotFound;
    if (!is_file || files.size() == 1) throw;
    return std::nullopt;
  }
}

void add_pictures(DecodeComparison& bench, const Pipeline& pipeline, const Options& options) {
  const PictureFiles files(options.path, options.limit_count);
  Progress progress("pictures compared", files.size());
  for (std::size_t i = 0; i < files.size(); ++i) {
    const transform::SampleKey key{options.seed, 0, i};
    auto encoded = read_or_leave_out(files, i);
    if (!encoded) {
      bench.leave_out();
      continue;
    }
    const auto added =
        bench.add(printable(files.name(i)), *std::move(encoded),
                  [&](const decode::ImageInfo& info) { return plan_of(pipeline, info, key); });
    if (!added) raise(added.error());
    progress.update(i + 1);
  }
  if (bench.pictures().empty()) {
    const bool is_one = files.size() == 1;
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("{}: {} a JPEG of grey or colour that decodes; give a folder, shards or "
                    "a file with some",
                    printable(is_one ? files.name(0) : options.path),
                    is_one ? "it is not" : fmt::format("none of {} files is", files.size())));
  }
}

std::vector<DecodeRound> run_rounds(DecodeComparison& bench, const Options& options) {
  static_cast<void>(bench.run_round(options.with_steps));  // Caches and tables are warm after it.
  std::vector<DecodeRound> rounds;
  Progress progress("rounds", 0);
  double spent = 0;
  while (rounds.size() < kFewestRounds || spent < options.seconds) {
    rounds.push_back(bench.run_round(options.with_steps));
    for (const double ns : rounds.back().ours_ns) spent += ns * 1e-9;
    for (const double ns : rounds.back().libjpeg_ns) spent += ns * 1e-9;
    progress.update(rounds.size());
  }
  return rounds;
}

/// What the rounds come to.
class Report {
 public:
  Report(const DecodeComparison& bench, std::vector<DecodeRound> rounds, const Options& options)
      : bench_(bench), rounds_(std::move(rounds)), options_(options) {}

  nlohmann::ordered_json to_json() const;
  void print() const;

 private:
  double count() const { return static_cast<double>(bench_.pictures().size()); }
  template <typename Value>
  Spread over_rounds(Value value) const {
    std::vector<double> values;
    values.reserve(rounds_.size());
    for (const DecodeRound& round : rounds_) values.push_back(value(round));
    return spread_of(values);
  }
  Spread ours(DecodeWork work) const {
    const auto at = static_cast<std::size_t>(work);
    return over_rounds([&](const DecodeRound& r) { return count() * 1e9 / r.ours_ns[at]; });
  }
  Spread theirs(DecodeWork work) const {
    const auto at = static_cast<std::size_t>(work);
    return over_rounds([&](const DecodeRound& r) { return count() * 1e9 / r.libjpeg_ns[at]; });
  }
  /// Of each round, so that what slows both down does not count.
  Spread ratio(DecodeWork work) const {
    const auto at = static_cast<std::size_t>(work);
    return over_rounds([&](const DecodeRound& r) { return r.libjpeg_ns[at] / r.ours_ns[at]; });
  }
  bool has_indexes() const { return bench_.kinds().crop_indexed > 0; }
  Spread indexed() const {
    return over_rounds([&](const DecodeRound& r) { return count() * 1e9 / r.region_indexed_ns; });
  }
  /// To libjpeg-turbo's region.
  Spread indexed_ratio() const {
    constexpr auto kAt = static_cast<std::size_t>(DecodeWork::kRegion);
    return over_rounds(
        [](const DecodeRound& r) { return r.libjpeg_ns[kAt] / r.region_indexed_ns; });
  }
  struct Step {
    const char* name;
    double ns = 0;  ///< Of all pictures.
    std::uint64_t pixels = 0;
  };
  std::vector<Step> steps() const;

  const DecodeComparison& bench_;
  std::vector<DecodeRound> rounds_;
  const Options& options_;
};

std::vector<Report::Step> Report::steps() const {
  const auto median = [&](double DecodeSteps::* member) {
    return over_rounds([&](const DecodeRound& r) { return r.steps.*member; }).median;
  };
  const auto whole = [&](bool is_ours, DecodeWork work) {
    const auto at = static_cast<std::size_t>(work);
    return over_rounds(
               [&](const DecodeRound& r) { return is_ours ? r.ours_ns[at] : r.libjpeg_ns[at]; })
        .median;
  };
  const std::uint64_t all = bench_.pixel_count();
  const std::uint64_t part = bench_.region_pixel_count();
  std::vector<Step> all_steps = {{"header", median(&DecodeSteps::header_ns), all},
                                 {"entropy", median(&DecodeSteps::entropy_ns), all},
                                 {"inverse_dct", median(&DecodeSteps::inverse_dct_ns), all},
                                 {"upsample_colour", median(&DecodeSteps::upsample_colour_ns), all},
                                 {"full", whole(true, DecodeWork::kFull), all},
                                 {"region", whole(true, DecodeWork::kRegion), part},
                                 {"resize_store", median(&DecodeSteps::resize_store_ns), part},
                                 {"libjpeg_turbo_entropy", whole(false, DecodeWork::kEntropy), all},
                                 {"libjpeg_turbo_full", whole(false, DecodeWork::kFull), all},
                                 {"libjpeg_turbo_region", whole(false, DecodeWork::kRegion), part}};
  constexpr std::size_t kOwnSteps = 4;  // Where no picture is ours, nobody takes them.
  if (bench_.kinds().feedrace == 0) {
    all_steps.erase(all_steps.begin(), all_steps.begin() + kOwnSteps);
  }
  return all_steps;
}

nlohmann::ordered_json spread_json(const Spread& spread) { return {spread.least, spread.most}; }

nlohmann::ordered_json Report::to_json() const {
  nlohmann::ordered_json own;
  nlohmann::ordered_json other;
  nlohmann::ordered_json ratios;
  nlohmann::ordered_json spreads;
  for (const DecodeWork work : kDecodeWorks) {
    const char* name = to_string(work);
    own[name] = ours(work).median;
    other[name] = theirs(work).median;
    ratios[name] = ratio(work).median;
    spreads["ours"][name] = spread_json(ours(work));
    spreads["libjpeg_turbo"][name] = spread_json(theirs(work));
    spreads["ratios"][name] = spread_json(ratio(work));
  }
  own["region_indexed"] = nullptr;
  if (has_indexes()) {
    own["region_indexed"] = indexed().median;
    ratios["region_indexed"] = indexed_ratio().median;
    spreads["ours"]["region_indexed"] = spread_json(indexed());
    spreads["ratios"]["region_indexed"] = spread_json(indexed_ratio());
  }
  const auto& kinds = bench_.kinds();
  const Machine machine = describe_machine(options_.path);
  nlohmann::ordered_json json = {
      {"ours", own},
      {"libjpeg_turbo", other},
      {"ratios", ratios},
      {"spreads", spreads},
      {"reasons", nlohmann::ordered_json::object()},
      {"pictures",
       {{"count", bench_.pictures().size()},
        {"feedrace", kinds.feedrace},
        {"libjpeg_turbo", kinds.libjpeg_turbo},
        {"damaged", kinds.damaged},
        {"left_out", kinds.left_out},
        {"crop_indexed", kinds.crop_indexed},
        {"kind", nullptr},
        {"encoded_bytes", bench_.encoded_bytes()},
        {"pixels", bench_.pixel_count()},
        {"region_pixels", bench_.region_pixel_count()}}},
      {"rounds", rounds_.size()},
      {"seed", options_.seed},
      {"machine",
       {{"cpu", machine.cpu}, {"kernel", machine.kernel}, {"version", FEEDRACE_VERSION}}}};
  if (!has_indexes()) json["reasons"]["region_indexed"] = kNoIndex;
  if (kinds.kind != nullptr) json["pictures"]["kind"] = kinds.kind;
  if (!options_.with_steps) return json;
  for (const Step& step : steps()) {
    json["steps"][step.name] = {
        {"ns_per_image", step.ns / count()},
        {"mb_per_second", static_cast<double>(bench_.encoded_bytes()) * 1e3 / step.ns},
        {"ns_per_pixel", step.ns / static_cast<double>(step.pixels)}};
  }
  return json;
}

void Report::print() const {
  const auto& kinds = bench_.kinds();
  fmt::print("{} pictures, {} and {:.1f} million pixels; every pixel and coefficient compared\n",
             with_commas(bench_.pictures().size()), human_bytes(bench_.encoded_bytes()),
             static_cast<double>(bench_.pixel_count()) * 1e-6);
  if (kinds.libjpeg_turbo + kinds.damaged + kinds.left_out > 0) {
    fmt::print("{} by Feedrace's decoder, {} by libjpeg-turbo{}, {} damaged; {} left out\n",
               with_commas(kinds.feedrace), with_commas(kinds.libjpeg_turbo),
               kinds.kind != nullptr ? fmt::format(" (the last one: {})", kinds.kind) : "",
               with_commas(kinds.damaged), with_commas(kinds.left_out));
  }
  fmt::print("images/s of one thread by its CPU time, median of {} rounds (least to most)\n",
             rounds_.size());
  fmt::print("{:<16}{:>24}{:>24}{:>20}\n", "", "Feedrace", "libjpeg-turbo", "ratio");
  const auto line = [](const char* name, const Spread& own, const Spread& other, const Spread& r) {
    const auto cell = [](const Spread& s) {
      return fmt::format("{:.0f} ({:.0f} to {:.0f})", s.median, s.least, s.most);
    };
    fmt::print("{:<16}{:>24}{:>24}{:>20}\n", name, cell(own), cell(other),
               fmt::format("{:.2f} ({:.2f} to {:.2f})", r.median, r.least, r.most));
  };
  for (const DecodeWork work : kDecodeWorks) {
    line(to_string(work), ours(work), theirs(work), ratio(work));
  }
  if (has_indexes()) {
    line("region_indexed", indexed(), theirs(DecodeWork::kRegion), indexed_ratio());
  } else {
    fmt::print("{:<16}n/a: {}\n", "region_indexed", kNoIndex);
  }
  if (!options_.with_steps) return;
  fmt::print("\n{:<24}{:>14}{:>14}{:>12}\n", "step", "ns/image", "MB/s", "ns/pixel");
  for (const Step& step : steps()) {
    fmt::print("{:<24}{:>14.0f}{:>14.0f}{:>12.3f}\n", step.name, step.ns / count(),
               static_cast<double>(bench_.encoded_bytes()) * 1e3 / step.ns,
               step.ns / static_cast<double>(step.pixels));
  }
}

int run(const Options& options) {
  const InterruptGuard interrupt;
  const Pipeline pipeline = Pipeline::recipe("imagenet-train");
  DecodeComparison bench({pipeline.dtype, pipeline.layout, pipeline.mean, pipeline.std});
  add_pictures(bench, pipeline, options);
  const Report report(bench, run_rounds(bench, options), options);
  if (options.as_json) {
    print_json(report.to_json());
  } else {
    report.print();
  }
  return kGood;
}

}  // namespace

void add_bench_decode(CLI::App& bench) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = bench.add_subcommand(
      "decode", "Decode JPEG pictures in memory, by Feedrace and by libjpeg-turbo");
  command->add_option("path", options->path, "A picture, a folder, tar shards or a list")
      ->required()
      ->check(not_empty());
  command
      ->add_option("--limit", options->limit_count,
                   "Take no more pictures than this, spread over all")
      ->check(whole_number(1, 1 << 20))
      ->capture_default_str();
  command->add_option("--seconds", options->seconds, "How long; at least three rounds")
      ->check(finite_number(0, 1e9))
      ->capture_default_str();
  command->add_option("--seed", options->seed, "Of the crops")
      ->check(whole_number(0))
      ->capture_default_str();
  command->add_flag("--steps", options->with_steps,
                    "Where the time goes: header, entropy decoding, inverse DCT, upsampling and "
                    "colour, resizing and storing");
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
