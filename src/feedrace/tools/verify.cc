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
    fmt::print("{}", report.to_text());
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
