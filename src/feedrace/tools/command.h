// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "feedrace/error.h"
#include "feedrace/loader.h"

namespace feedrace::tools {

/// What a command tells the shell.
enum Exit : int {
  kGood = 0,
  kBadData = 1,      ///< The data is bad, or a check failed.
  kWrongUse = 2,     ///< The call or a path in it is wrong.
  kEnvironment = 3,  ///< Permission, disk full, missing feature, I/O error.
  kInterrupted = 130,
};

Exit exit_of(ErrorCode code) noexcept;

/// Registers a subcommand: `run` is called after parsing, its result becomes the exit code.
using Run = std::function<int()>;
void add_command(CLI::App& command, Run run);

// One function a command, each in a file of its own; main.cc lists them.
void add_index(CLI::App& app);
void add_ls(CLI::App& app);
void add_cat(CLI::App& app);
void add_decode(CLI::App& app);
void add_plan(CLI::App& app);
void add_batch(CLI::App& app);
void add_bench(CLI::App& app);

/// Notes for a person, one line each, on standard error: output stays what scripts read.
void warn(const std::vector<std::string>& sentences);

/// Checks of numbers, stricter than the parser's own: no sign, no octal, no blanks, no wrap-around,
/// no nan. Bounds are inclusive.
CLI::Validator whole_number(std::uint64_t lowest, std::uint64_t highest = ~std::uint64_t{0});
CLI::Validator finite_number(double lowest, double highest);

/// The options with which every command that opens a data set names it.
struct DataOptions {
  std::vector<std::string> sources;
  formats::OpenOptions format;

  void add_to(CLI::App& command);
};

/// The options with which every command that loads batches says how.
struct LoadOptions {
  DataOptions data;
  LoaderOptions loader;
  std::string recipe = "imagenet-train";
  std::uint32_t size_px = 0;
  std::string dtype = "float16";
  std::string layout = "CHW";
  std::string last_batch = "auto";
  std::string on_error = "raise";
  std::string fallback = "warn";
  bool no_shuffle = false;
  bool upright = false;

  void add_to(CLI::App& command);
  /// The loader's options as given. Throws Error kInvalidArgument.
  LoaderOptions make() const;

 private:
  void add_pixel_options(CLI::App& command);
  void add_order_options(CLI::App& command);
  void add_machine_options(CLI::App& command);
  void add_error_options(CLI::App& command);
};

}  // namespace feedrace::tools
