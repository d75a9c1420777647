// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace feedrace::diagnose {

/// What is known of a training run; what is not stays empty.
struct RunFigures {
  std::optional<double> images_per_second;  ///< Of one GPU, waiting included; > 0.
  std::optional<double> wait_share;         ///< Of the time, waiting for batches: in [0, 1).
  std::optional<double> days;               ///< Of the whole run; > 0.
  std::optional<double> cost;               ///< Of the whole run, in any currency; > 0.
};

/// What else could feed one GPU, measured or given.
struct Remedy {
  std::string name;              ///< "crop index".
  double images_per_second = 0;  ///< That batches come with at most when nobody waits for the GPU.
};

struct EstimateInput {
  RunFigures before;
  RunFigures after;  ///< What somebody says of the run with a faster loader; may be empty.
  std::uint64_t gpu_count = 1;
  std::optional<std::uint64_t> image_count;  ///< Of an epoch.
  std::optional<std::uint64_t> epoch_count;
  std::optional<double> price_per_gpu_hour;
  std::vector<Remedy> remedies;
};

/// A figure and what it follows from.
struct Derived {
  std::string what;   ///< "the training loop by itself".
  std::string value;  ///< "451.6 images/s a GPU".
  std::string from;   ///< "280 images/s / (1 - 38 %)".
};

/// The run with a remedy.
struct Outcome {
  std::string name;
  double images_per_second = 0;
  std::optional<double> wait_share;
  std::optional<double> days;
  std::optional<double> cost;
  double speedup = 1;
};

struct Estimate {
  std::vector<Derived> derived;
  std::vector<std::string> contradictions;  ///< One sentence each: figures that do not agree.
  std::vector<Outcome> outcomes;            ///< Without any waiting first, then each remedy.
};

/// Arithmetic alone. Throws Error kInvalidArgument for figures out of their range, and where there
/// is nothing to reckon with.
Estimate estimate(const EstimateInput& input);

}  // namespace feedrace::diagnose
