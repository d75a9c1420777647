// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "feedrace/error.h"
#include "feedrace/format.h"
#include "feedrace/stats.h"

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
void add_digest(CLI::App& app);
void add_rehearse(CLI::App& app);
void add_bench(CLI::App& app);
// Of `bench`.
void add_bench_io(CLI::App& bench);
void add_bench_files(CLI::App& bench);
void add_bench_decode(CLI::App& bench);
void add_bench_ceilings(CLI::App& bench);
void add_pack(CLI::App& app);
void add_warm(CLI::App& app);
void add_verify(CLI::App& app);
void add_gpu_info(CLI::App& app);
void add_doctor(CLI::App& app);
void add_estimate(CLI::App& app);
void add_top(CLI::App& app);
void add_report(CLI::App& app);
void add_explain(CLI::App& app);

/// Notes for a person, one line each, on standard error: output stays what scripts read. A standard
/// error that can't be written is no reason to stop.
void note(const std::string& sentence) noexcept;
void warn(const std::vector<std::string>& sentences);

/// The same for what was wanted and could not be had.
void warn(const std::vector<FallbackCount>& fallbacks);
/// "SENTENCE (3 times)".
std::string to_text(const FallbackCount& fallback);

/// Checks of numbers, stricter than the parser's own: no sign, no octal, no blanks, no wrap-around,
/// no nan. Bounds are inclusive.
CLI::Validator whole_number(std::uint64_t lowest, std::uint64_t highest = ~std::uint64_t{0});
CLI::Validator finite_number(double lowest, double highest);

/// An empty text is no name: most likely a shell variable that was not set.
CLI::Validator not_empty();

/// The options with which every command that opens a data set names it.
struct DataOptions {
  std::vector<std::string> sources;
  formats::OpenOptions format;

  /// Returns the option of the path, which is required unless the caller says otherwise.
  CLI::Option* add_to(CLI::App& command);
};

}  // namespace feedrace::tools
