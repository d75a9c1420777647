// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/estimate.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"

namespace feedrace::diagnose {
namespace {

constexpr double kSecondsADay = 86'400;
constexpr double kHoursADay = 24;
/// Figures that people round to two digits differ by so much without contradicting each other.
constexpr double kRounding = 0.03;
/// A smaller rate, time or price is a slip.
constexpr double kLeast = 1e-9;

std::string number(double value) {
  return value >= 10'000 ? with_commas(static_cast<std::uint64_t>(std::llround(value)))
                         : fmt::format("{:.4g}", value);
}

std::string percent(double share) { return fmt::format("{:.3g} %", 100 * share); }

bool agree(double a, double b) { return std::abs(a - b) <= kRounding * std::max(a, b); }

void check(const std::optional<double>& value, const char* name, double most) {
  if (!value) return;
  if (std::isfinite(*value) && *value >= kLeast && *value <= most) return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} {}: no such figure; give one from {} to {}", name, *value, kLeast,
                          number(most)));
}

void check(const RunFigures& run) {
  constexpr double kMost = 1e15;
  check(run.images_per_second, "images per second", kMost);
  check(run.days, "days", kMost);
  check(run.cost, "cost", kMost);
  if (run.wait_share && (!(*run.wait_share >= 0) || *run.wait_share >= 1)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("wait {}: no such share; give one from 0 % to below 100 %",
                            percent(*run.wait_share)));
  }
}

class Reckoning {
 public:
  explicit Reckoning(const EstimateInput& input) : in_(input), before_(input.before) {}

  Estimate run() {
    fill_days();
    fill_cost();
    derive_loop();
    derive_images();
    derive_price();
    compare_runs();
    reckon_outcomes();
    if (out_.derived.empty() && out_.outcomes.empty() && out_.contradictions.empty()) {
      throw Error(ErrorCode::kInvalidArgument,
                  "estimate: nothing follows from these figures; give images per second with the "
                  "share of waiting, or with days, or with images and epochs");
    }
    return std::move(out_);
  }

 private:
  void put(std::string what, std::string value, std::string from) {
    out_.derived.push_back({std::move(what), std::move(value), std::move(from)});
  }

  double gpus() const { return static_cast<double>(in_.gpu_count); }
  std::string gpus_text() const {
    return fmt::format("{} GPU{}", in_.gpu_count, in_.gpu_count == 1 ? "" : "s");
  }

  std::optional<double> images_of_run() const {
    if (!in_.image_count) return std::nullopt;
    return static_cast<double>(*in_.image_count) * static_cast<double>(in_.epoch_count.value_or(1));
  }

  /// By images and rate, where nobody gave them.
  void fill_days() {
    const auto images = images_of_run();
    if (!images || !before_.images_per_second) return;
    const double days = *images / (*before_.images_per_second * gpus() * kSecondsADay);
    put(in_.epoch_count ? "the run" : "an epoch", fmt::format("{:.4g} days", days),
        fmt::format("{} images / ({} x {} images/s)", number(*images), gpus_text(),
                    number(*before_.images_per_second)));
    if (!before_.days) {
      before_.days = days;
    } else if (!agree(*before_.days, days)) {
      contradict(fmt::format("{:.4g} days are given, but so many images at that rate take {:.4g}",
                             *before_.days, days));
    }
  }

  void fill_cost() {
    if (!in_.price_per_gpu_hour || !before_.days) return;
    const double cost = *in_.price_per_gpu_hour * kHoursADay * *before_.days * gpus();
    put("the run's cost", number(cost),
        fmt::format("{:.4g} days x {} x {:.4g} a GPU hour", *before_.days, gpus_text(),
                    *in_.price_per_gpu_hour));
    if (!before_.cost) {
      before_.cost = cost;
    } else if (!agree(*before_.cost, cost)) {
      contradict(fmt::format("a cost of {} is given, but that price comes to {}",
                             number(*before_.cost), number(cost)));
    }
  }

  /// The training loop's own ceiling.
  void derive_loop() {
    if (!before_.images_per_second || !before_.wait_share) return;
    loop_ = *before_.images_per_second / (1 - *before_.wait_share);
    put("the training loop when it never waits", number(*loop_) + " images/s a GPU",
        fmt::format("{} images/s / (1 - {})", number(*before_.images_per_second),
                    percent(*before_.wait_share)));
    put("the most that any loader can win", fmt::format("{:.3g} x", 1 / (1 - *before_.wait_share)),
        fmt::format("1 / (1 - {})", percent(*before_.wait_share)));
  }

  void derive_images() {
    if (!before_.images_per_second || !before_.days || images_of_run()) return;
    const double images = *before_.images_per_second * *before_.days * kSecondsADay * gpus();
    put("images of the whole run", number(images),
        fmt::format("{} images/s x {:.4g} days x {}", number(*before_.images_per_second),
                    *before_.days, gpus_text()));
  }

  void derive_price() {
    if (!before_.cost || !before_.days || in_.price_per_gpu_hour) return;
    put("a GPU hour", fmt::format("{:.4g}", *before_.cost / (*before_.days * kHoursADay * gpus())),
        fmt::format("{} / ({:.4g} days x {})", number(*before_.cost), *before_.days, gpus_text()));
    if (before_.wait_share) {
      put("paid for waiting", number(*before_.cost * *before_.wait_share),
          fmt::format("{} x {}", number(*before_.cost), percent(*before_.wait_share)));
    }
  }

  void contradict(std::string sentence) { out_.contradictions.push_back(std::move(sentence)); }

  /// What is said of the run afterwards against what is said of it before.
  void compare_runs() {
    const RunFigures& after = in_.after;
    const auto ratio = [](const std::optional<double>& a, const std::optional<double>& b) {
      return a && b ? std::optional(*a / *b) : std::nullopt;
    };
    const auto rate = ratio(after.images_per_second, before_.images_per_second);
    const auto days = ratio(before_.days, after.days);
    const auto cost = ratio(before_.cost, after.cost);
    if (rate) {
      compare_with_wait(*rate, "the images/s");
    } else if (days) {
      compare_with_wait(*days, "fewer days");
    }
    if (rate && days && !agree(*rate, *days)) {
      contradict(fmt::format(
          "{:.3g} x the images/s, but {:.3g} x fewer days: at {} images/s the same images take "
          "{:.3g} days and not {:.3g}",
          *rate, *days, number(*after.images_per_second), *before_.days / *rate, *after.days));
    }
    if (days && cost && !agree(*days, *cost)) {
      contradict(
          fmt::format("{:.3g} x fewer days, but {:.3g} x less cost: the price of a day is "
                      "not the same",
                      *days, *cost));
    }
  }

  /// How much faster the run is said to be, against what its waiting explains.
  void compare_with_wait(double speedup, const char* of_what) {
    if (!before_.wait_share) return;
    const double wait_after = in_.after.wait_share.value_or(0);
    const double explained = (1 - wait_after) / (1 - *before_.wait_share);
    // Where nobody says how much it waits afterwards, it may still wait.
    const bool may_be_slower = !in_.after.wait_share;
    if (agree(speedup, explained) || (speedup < explained && may_be_slower)) return;
    const std::string gives =
        fmt::format("{:.3g} x {} does not follow from the waiting: from {} to {} gives {:.3g} x",
                    speedup, of_what, percent(*before_.wait_share), percent(wait_after), explained);
    if (speedup < explained) {
      contradict(fmt::format("{}; the training loop must have become {:.3g} x slower", gives,
                             explained / speedup));
      return;
    }
    contradict(
        fmt::format("{}, and none at all {:.3g} x; the other {:.3g} x must come from a faster "
                    "training loop",
                    gives, 1 / (1 - *before_.wait_share), speedup / explained));
  }

  void reckon_outcomes() {
    if (!before_.images_per_second) return;
    if (loop_) out_.outcomes.push_back(outcome("no waiting at all", *loop_));
    for (const Remedy& remedy : in_.remedies) {
      const double rate =
          loop_ ? std::min(remedy.images_per_second, *loop_) : remedy.images_per_second;
      out_.outcomes.push_back(outcome(remedy.name, rate));
    }
  }

  Outcome outcome(std::string name, double rate) const {
    Outcome one;
    one.name = std::move(name);
    one.images_per_second = rate;
    one.speedup = rate / *before_.images_per_second;
    if (loop_) one.wait_share = 1 - rate / *loop_;
    if (before_.days) one.days = *before_.days / one.speedup;
    if (before_.cost) one.cost = *before_.cost / one.speedup;
    return one;
  }

  const EstimateInput& in_;
  RunFigures before_;  // With what could be filled in.
  std::optional<double> loop_;
  Estimate out_;
};

}  // namespace

Estimate estimate(const EstimateInput& input) {
  check(input.before);
  check(input.after);
  check(input.price_per_gpu_hour, "price of a GPU hour", 1e9);
  if (input.gpu_count == 0 || (input.image_count && *input.image_count == 0) ||
      (input.epoch_count && *input.epoch_count == 0)) {
    throw Error(ErrorCode::kInvalidArgument,
                "estimate: 0 GPUs, images or epochs; give 1 or more, or leave them out");
  }
  for (const Remedy& remedy : input.remedies)
    check(remedy.images_per_second, "a remedy's images per second", 1e15);
  return Reckoning(input).run();
}

}  // namespace feedrace::diagnose
