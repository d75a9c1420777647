// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "feedrace/doctor/finding.h"
#include "feedrace/verdict.h"

namespace feedrace::view {

/// A picture as the network gets it.
struct Thumbnail {
  std::string png;      ///< The file's bytes.
  std::string caption;  ///< Its class, or number.
};

/// What a page tells of a run.
struct Report {
  std::string title;  ///< What was loaded.
  std::string when;   ///< "2026-12-01 10:30".
  std::string plan;   ///< Lines.
  Verdict verdict;
  std::string error;  ///< What ended the run; empty: the time that was given.
  /// `loader_between` of each stretch of the run, with "seconds", where it ends.
  std::vector<nlohmann::ordered_json> stretches;
  nlohmann::ordered_json whole;  ///< The same over the whole run.
  nlohmann::ordered_json told;   ///< `watch::to_json` at its end.
  double first_batch_seconds = 0;
  double cpu_seconds_per_1000 = 0;
  std::vector<std::string> quarantine;  ///< Lines of the file, the first few.
  std::vector<Thumbnail> pictures;
  std::string picture_note;  ///< Why there are none.
  doctor::Findings findings;
  std::vector<std::pair<std::string, std::string>> machine;  ///< Name and value.
};

/// One page of HTML, well-formed as XML too, that needs nothing beside itself: no script, no font,
/// no network.
std::string to_html(const Report& report);
/// Whether a file that begins so is such a page.
bool is_report(std::string_view head);

}  // namespace feedrace::view
