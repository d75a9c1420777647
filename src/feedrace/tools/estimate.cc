// SPDX-License-Identifier: Apache-2.0
// feedrace estimate: what waiting costs, and what removing it can win, by arithmetic alone.

#include "feedrace/diagnose/estimate.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/tools/ceilings_file.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/whole_file.h"
#include "feedrace/verdict/ceilings.h"

namespace feedrace::tools {
namespace {

using Json = nlohmann::ordered_json;

/// As the command line has them.
struct RunTexts {
  std::string images_per_second, wait, days, cost;
};

struct Options {
  RunTexts before, after;
  std::vector<std::string> remedies;
  std::string ceilings;
  diagnose::EstimateInput input;
  bool as_json = false;
};

std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  return value;
}

/// Of `text`, which stands behind `name`; nothing where it is empty.
std::optional<double> read_number(const std::string& name, const std::string& text) {
  if (text.empty()) return std::nullopt;
  const auto value = number_of(text);
  if (value) return value;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} {}: no number; write it as 280 or 3.2", name, printable(text)));
}

/// "38%" or "0.38".
std::optional<double> read_share(const std::string& name, std::string text) {
  const bool is_percent = text.ends_with('%');
  if (is_percent) text.pop_back();
  const auto value = read_number(name, text);
  if (value && !is_percent && *value >= 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} {}: no share; write it as 38% or 0.38", name, printable(text)));
  }
  return value && is_percent ? std::optional(*value / 100) : value;
}

diagnose::RunFigures read_run(const RunTexts& texts, const std::string& prefix) {
  return {read_number(prefix + "images-per-second", texts.images_per_second),
          read_share(prefix + "wait", texts.wait), read_number(prefix + "days", texts.days),
          read_number(prefix + "cost", texts.cost)};
}

/// "crop index=350".
diagnose::Remedy read_remedy(const std::string& text) {
  const std::size_t at = text.rfind('=');
  const auto rate =
      at == std::string::npos ? std::nullopt : number_of(std::string_view(text).substr(at + 1));
  if (!rate || at == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--remedy {}: not NAME=IMAGES_PER_SECOND, such as crop-index=350",
                            printable(text)));
  }
  return {text.substr(0, at), *rate};
}

/// What `bench ceilings` measured, as remedies; the slower of two parts is what one gets.
std::vector<diagnose::Remedy> measured_remedies(const verdict::MeasuredCeilings& found) {
  std::vector<diagnose::Remedy> remedies;
  if (!found.loader) return remedies;
  remedies.push_back({"feedrace as measured", *found.loader});
  if (found.decode && found.decode_indexed) {
    const double indexed = *found.loader * *found.decode_indexed / *found.decode;
    remedies.push_back({"crop index", std::min(indexed, std::max(found.storage.value_or(indexed),
                                                                 *found.loader))});
  }
  // Only where storage is what limits; decoding may be what limits next.
  constexpr double kLimits = 0.8;
  if (found.packed && found.storage && *found.loader >= kLimits * *found.storage) {
    remedies.push_back({"shards, at most", *found.packed});
  }
  return remedies;
}

/// Where nobody says how fast the run is: what the loader gives, cut by the training loop. With the
/// loop's own rate it is known how long it waits.
void fill_before(const verdict::MeasuredCeilings& found, diagnose::RunFigures& before) {
  if (before.images_per_second || !found.loader) return;
  before.images_per_second = std::min(*found.loader, found.consumer.value_or(*found.loader));
  if (!before.wait_share && found.consumer) {
    before.wait_share = 1 - *before.images_per_second / *found.consumer;
  }
}

Json to_json(const diagnose::Outcome& one) {
  Json json = {{"name", printable(one.name)},
               {"images_per_second", one.images_per_second},
               {"speedup", one.speedup}};
  if (one.wait_share) json["wait_share"] = *one.wait_share;
  if (one.days) json["days"] = *one.days;
  if (one.cost) json["cost"] = *one.cost;
  return json;
}

void print_report_json(const diagnose::Estimate& found) {
  Json derived = Json::array();
  for (const auto& one : found.derived) {
    derived.push_back({{"what", one.what}, {"value", one.value}, {"from", one.from}});
  }
  Json outcomes = Json::array();
  for (const auto& one : found.outcomes) outcomes.push_back(to_json(one));
  print_json(
      {{"derived", derived}, {"contradictions", found.contradictions}, {"outcomes", outcomes}});
}

void print_report(const diagnose::Estimate& found) {
  for (const auto& one : found.derived) {
    fmt::print("{}: {} = {}\n", one.what, one.value, one.from);
  }
  for (const auto& one : found.outcomes) {
    fmt::print("with {}: {:.4g} images/s a GPU, {:.3g} x", printable(one.name),
               one.images_per_second, one.speedup);
    if (one.wait_share) fmt::print(", waiting {:.3g} %", 100 * *one.wait_share);
    if (one.days) fmt::print(", {:.4g} days", *one.days);
    if (one.cost) fmt::print(", cost {}", with_commas(static_cast<std::uint64_t>(*one.cost + 0.5)));
    fmt::print("\n");
  }
  for (const std::string& sentence : found.contradictions) {
    fmt::print("does not follow: {}\n", sentence);
  }
}

int run(Options options) {
  options.input.before = read_run(options.before, "--");
  options.input.after = read_run(options.after, "--after-");
  for (const std::string& text : options.remedies) {
    options.input.remedies.push_back(read_remedy(text));
  }
  if (!options.ceilings.empty()) {
    const auto found = verdict::parse_ceilings(read_ceilings_text(options.ceilings));
    fill_before(found, options.input.before);
    for (auto& one : measured_remedies(found)) options.input.remedies.push_back(std::move(one));
  }
  const diagnose::Estimate found = diagnose::estimate(options.input);
  if (options.as_json) {
    print_report_json(found);
  } else {
    print_report(found);
  }
  return found.contradictions.empty() ? kGood : kBadData;
}

void add_run(CLI::App& command, const std::string& prefix, const std::string& of, RunTexts& texts) {
  command
      .add_option(prefix + "images-per-second", texts.images_per_second,
                  "Of one GPU, waiting included" + of)
      ->check(not_empty());
  command
      .add_option(prefix + "wait", texts.wait,
                  "Share of the time that it waits for batches, as 38% or 0.38" + of)
      ->check(not_empty());
  command.add_option(prefix + "days", texts.days, "Of the whole run" + of)->check(not_empty());
  command.add_option(prefix + "cost", texts.cost, "Of the whole run, in any currency" + of)
      ->check(not_empty());
}

}  // namespace

void add_estimate(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "estimate",
      "Reckon what waiting costs and what a faster loader can win; ends with 1 when figures "
      "contradict each other");
  add_run(*command, "--", "", options->before);
  add_run(*command, "--after-", ", as somebody says of it with another loader", options->after);
  command->add_option("--gpus", options->input.gpu_count, "That train together")
      ->check(whole_number(1, 1'000'000'000))
      ->capture_default_str();
  command->add_option("--images", options->input.image_count, "Of an epoch")
      ->check(whole_number(1, std::uint64_t{1} << 60));
  command->add_option("--epochs", options->input.epoch_count, "Of the run")
      ->check(whole_number(1, 1'000'000'000));
  command->add_option("--price", options->input.price_per_gpu_hour, "Of a GPU hour");
  command->add_option("--remedy", options->remedies,
                      "NAME=IMAGES_PER_SECOND: what batches could come with, such as bench loader "
                      "measures it; may be given again");
  command
      ->add_option("--ceilings", options->ceilings,
                   "What bench ceilings PATH --json wrote: its rates become remedies, and the "
                   "run's own where none is given")
      ->check(not_empty());
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
