// SPDX-License-Identifier: Apache-2.0
// feedrace doctor: what of this machine slows loading down, why, and the command that mends it.

#include "feedrace/doctor/doctor.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/whole_file.h"

namespace feedrace::tools {
namespace {

using doctor::Finding;
using doctor::Grade;
using Json = nlohmann::ordered_json;

struct Options {
  doctor::DoctorOptions doctor;
  std::string gds_check;
  bool as_json = false;
  bool as_script = false;
  bool is_brief = false;
};

std::size_t count_of(const doctor::Findings& findings, Grade grade) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [grade](const Finding& one) { return one.grade == grade; }));
}

std::string summary_of(const doctor::Findings& findings) {
  return fmt::format("{}, {} advice, {} good, {} unknown",
                     formats::counted(count_of(findings, Grade::kProblem), "problem"),
                     count_of(findings, Grade::kAdvice), count_of(findings, Grade::kGood),
                     count_of(findings, Grade::kUnknown));
}

Json to_json(const Finding& one) {
  Json json;
  json["item"] = one.item;
  put_text(json, "subject", one.subject);
  json["grade"] = doctor::to_string(one.grade);
  json["weight"] = doctor::to_string(one.weight);
  put_text(json, "found", one.found);
  json["wanted"] = one.wanted;
  json["why"] = one.why;
  if (!one.tip.empty()) json["tip"] = one.tip;
  if (!one.fix.empty()) put_text(json, "fix", one.fix);
  return json;
}

void print_finding(const Finding& one, bool is_brief) {
  const std::string subject = one.subject.empty() ? "" : " " + printable(one.subject);
  fmt::print("{:<8} {}{}: {}\n", doctor::to_string(one.grade), one.item, subject,
             printable(one.found));
  if (is_brief || one.grade == Grade::kGood || one.grade == Grade::kUnknown) return;
  fmt::print("         wanted: {} ({} weight)\n         {}\n", one.wanted,
             doctor::to_string(one.weight), one.why);
  if (!one.tip.empty()) fmt::print("         often advised: {}\n", one.tip);
  if (one.fix.empty()) return;
  std::string fix = one.fix;
  for (std::size_t at = 0; (at = fix.find('\n', at)) != std::string::npos; ++at) {
    fix.insert(at + 1, "              ");
  }
  fmt::print("         fix: {}\n", fix);
}

/// The worst first, and of those what weighs most.
doctor::Findings sorted(doctor::Findings findings) {
  const auto rank = [](const Finding& one) {
    constexpr std::array<int, 4> kByGrade = {2, 1, 0, 3};
    return std::pair(kByGrade.at(static_cast<std::size_t>(one.grade)),
                     -static_cast<int>(one.weight));
  };
  std::stable_sort(findings.begin(), findings.end(),
                   [&](const Finding& a, const Finding& b) { return rank(a) < rank(b); });
  return findings;
}

int run(Options& options) {
  if (!options.gds_check.empty()) options.doctor.gds_check = read_whole_text(options.gds_check);
  const doctor::Findings findings = doctor::examine(options.doctor);
  if (options.as_script) {
    fmt::print("{}", doctor::fix_script(sorted(findings)));
    return kGood;
  }
  if (options.as_json) {
    Json list = Json::array();
    for (const Finding& one : findings) list.push_back(to_json(one));
    print_json({{"findings", list},
                {"problems", count_of(findings, Grade::kProblem)},
                {"advice", count_of(findings, Grade::kAdvice)},
                {"good", count_of(findings, Grade::kGood)},
                {"unknown", count_of(findings, Grade::kUnknown)}});
  } else {
    for (const Finding& one : sorted(findings)) print_finding(one, options.is_brief);
    fmt::print("{}\n", summary_of(findings));
    if (options.doctor.paths.empty()) {
      note("no storage was looked at; name the data: feedrace doctor /data/train");
    }
  }
  return count_of(findings, Grade::kProblem) > 0 ? kBadData : kGood;
}

}  // namespace

void add_doctor(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Say what of this machine slows loading down, and how to mend it; changes nothing");
  command->add_option("paths", options->doctor.paths, "Data whose storage is looked at")
      ->check(not_empty());
  auto* json = command->add_flag("--json", options->as_json, "Print JSON");
  command
      ->add_flag("--script", options->as_script,
                 "Print a shell script of the fixes, each with what was found and why")
      ->excludes(json);
  command->add_flag("--brief", options->is_brief, "A line for each finding")->excludes(json);
  command
      ->add_option("--root", options->doctor.root,
                   "Where proc, sys, boot and dev are read, such as a copy of another machine's")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  command->add_option("--gdscheck", options->gds_check,
                      "What gdscheck -p of cuFile printed: which way its reads take");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
