// SPDX-License-Identifier: Apache-2.0
// feedrace verify PATH: reads a data set as the loader would, all of it, and says what is wrong.

#include "feedrace/verify.h"

#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/progress.h"

namespace feedrace::tools {
namespace {

struct Options {
  DataOptions data;
  pack::VerifyOptions verify;
  bool leaves_pictures = false;
  bool allows_flagged = false;
  bool as_json = false;
};

void print_sizes(const char* title, const pack::VerifyReport::Spread& spread) {
  if (spread.count == 0) return;
  fmt::print("{:<11} smallest {}, median {}, largest {}\n", title, with_commas(spread.smallest),
             with_commas(spread.median), with_commas(spread.largest));
}

void print_fields(const pack::VerifyReport& report) {
  constexpr std::size_t kMost = 12;
  std::string text;
  std::size_t shown = 0;
  for (const auto& [name, count] : report.fields) {
    if (shown++ == kMost) break;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", printable(name), with_commas(count));
  }
  if (report.fields.size() > kMost) text += ", ...";
  fmt::print("fields      {}\n", text);
}

void print_classes(const pack::VerifyReport::Classes& classes) {
  if (!classes.is_known) {
    fmt::print("classes     more than a million different labels, which are no classes\n");
    return;
  }
  fmt::print(
      "classes     {} with samples, {} without; fewest: {} of class {}, most: {} of class {}\n",
      with_commas(classes.count), with_commas(classes.empty_count),
      with_commas(classes.smallest.sample_count), classes.smallest.label,
      with_commas(classes.largest.sample_count), classes.largest.label);
}

void print_text(const pack::VerifyReport& report, bool decodes) {
  fmt::print("samples     {}, {} with a picture; {}", with_commas(report.sample_count),
             with_commas(report.picture_count), report.kind);
  if (report.shard_count > 0) {
    fmt::print(": {}, {}", formats::counted(report.shard_count, "shard"),
               human_bytes(report.shard_bytes));
  }
  fmt::print("\n");
  if (!report.fields.empty()) print_fields(report);
  if (decodes) {
    fmt::print("pictures    {} of {} decoded, {} of them with a complaint\n",
               with_commas(report.decoded_count), with_commas(report.picture_count),
               with_commas(report.flagged_count));
  }
  print_sizes("bytes", report.bytes);
  print_sizes("pixels", report.pixels);
  if (report.classes) print_classes(*report.classes);
  if (report.has_manifest) {
    fmt::print("checksums   {} of {} as manifest.json says\n", with_commas(report.checksum_count),
               formats::counted(report.shard_count, "shard"));
  }
  if (!report.index.empty()) fmt::print("index       {}\n", report.index);
  for (const pack::VerifyReport::Finding& finding : report.findings) {
    fmt::print("{:<11} {}: {}: {}\n", finding.is_bad ? "bad" : "note", finding.check, finding.what,
               with_commas(finding.count));
    for (const std::string& example : finding.examples) fmt::print("            {}\n", example);
    if (finding.count > finding.examples.size() && !finding.examples.empty()) {
      fmt::print("            ...\n");
    }
  }
  fmt::print("{}: {} bad, {:.1f} s, {}\n", report.is_good() ? "good" : "bad",
             formats::counted(report.bad_sample_count, "sample"), report.seconds,
             formats::counted(report.thread_count, "thread"));
}

int run(Options& options) {
  InterruptGuard interrupt;
  const InterruptGuard::Asking asking(interrupt);
  pack::VerifyOptions& verify = options.verify;
  verify.format = options.data.format;
  if (verify.format.label_field == "none") verify.format.label_field.clear();
  verify.format.store_index = formats::StoreIndex::kNever;
  verify.decodes = !options.leaves_pictures;
  verify.refuses_flagged = !options.allows_flagged;
  Progress progress("verify, samples", 0);
  verify.progress = [&](std::uint64_t sample_count, double share) {
    if (interrupt.is_interrupted()) {
      throw Error(ErrorCode::kCancelled, "interrupted; no list of bad samples was written");
    }
    progress.update(sample_count, share);
  };
  const pack::VerifyReport report = pack::verify(options.data.sources, verify);
  if (options.as_json) {
    fmt::print("{}\n", report.to_json());
  } else {
    print_text(report, verify.decodes);
  }
  return report.is_good() ? kGood : kBadData;
}

}  // namespace

void add_verify(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "verify", "Read all of a data set, decode each picture, and say what is wrong");
  options->data.add_to(*command);
  command->add_flag("--no-decode", options->leaves_pictures,
                    "Leave the pictures: structure, checksums, keys, fields and labels only");
  command->add_flag("--allow-flagged", options->allows_flagged,
                    "Pictures that decode with a complaint are no reason to end with 1");
  command
      ->add_option("--require", options->verify.required_fields,
                   "Fields that each sample of a shard must have")
      ->delimiter(',');
  command
      ->add_option("--bad", options->verify.bad_file,
                   "Write the list of bad samples to this file, as JSON lines")
      ->check(not_empty());
  command->add_option("--max-pixels", options->verify.max_pixels, "Larger pictures are bad")
      ->check(whole_number(1, std::uint64_t{1} << 40))
      ->capture_default_str();
  command
      ->add_option("--threads", options->verify.thread_count,
                   "That read, hash and decode; 0: one for each usable core")
      ->check(whole_number(0, 1024))
      ->capture_default_str();
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
