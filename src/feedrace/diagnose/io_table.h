// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "feedrace/diagnose/io_paths.h"
#include "feedrace/error.h"

namespace feedrace::diagnose {

/// How a line compares with fio: ours divided by fio's, pair by pair.
struct IoComparison {
  std::string reason;                  ///< Empty: compared.
  std::vector<std::string> arguments;  ///< Of fio.
  std::vector<double> ratios;
  std::vector<double> cpu_ratios;  ///< CPU per GB; without the pairs in which fio counted none.
};

/// A line of the table of read paths.
struct IoLine {
  IoPath path;
  bool is_cold = true;
  std::string reason;                        ///< Empty: measured, in at least one round.
  ErrorCode code = ErrorCode::kUnsupported;  ///< As `IoRow::code`.
  std::string pages_reason;
  std::string way;  ///< As `IoRow::way`, of the last round.
  std::vector<IoFigures> rounds;
  std::optional<IoComparison> fio;

  /// "cufile compat": of a path that does not say it itself, with the way that it took.
  std::string name() const { return way.empty() ? path.name : path.name + " " + way; }
  const char* state() const noexcept { return is_cold ? "cold" : "warm"; }
};

/// Lines for `paths`: cold, and where the page cache matters also warm. Nothing is measured yet.
std::vector<IoLine> lines_of(const std::vector<IoPath>& paths);

/// For people: aligned, one line each, at most 120 columns, but for the notes below.
std::string io_table(const std::vector<IoLine>& lines);
/// The same of the comparisons with `fio` ("fio-3.33").
std::string fio_table(const std::vector<IoLine>& lines, const std::string& fio);

}  // namespace feedrace::diagnose
