// SPDX-License-Identifier: Apache-2.0
// feedrace index SHARDS: makes or refreshes the index ahead of training. With --crop-index also
// that of each picture, of image folders too.

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/file_list.h"
#include "feedrace/formats/folder_walk.h"
#include "feedrace/formats/image_folder.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/shard_labels.h"
#include "feedrace/formats/webdataset.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/index_exchange.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/progress.h"

namespace feedrace::tools {
namespace {

struct Options {
  DataOptions data;
  ExchangeOptions exchange;
  bool as_json = false;
  std::vector<const CLI::Option*> of_contents;  ///< Where pictures, labels and indexes are.
};

/// Options that would change nothing are refused.
void check_used(const Options& options) {
  if (options.exchange.format != "dali") return;
  for (const CLI::Option* option : options.of_contents) {
    if (option->count() == 0) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} changes nothing about an index for DALI, which has every member; "
                            "leave it out",
                            option->get_name()));
  }
}

/// True of an image folder; a folder whose shards are gone is none.
bool has_pictures(const DataOptions& data) {
  const std::string& root = data.sources.at(0);
  const formats::Endings& endings = data.format.file_endings;
  const std::vector<std::string> classes = formats::list_root(root, endings).classes;
  return std::any_of(classes.begin(), classes.end(), [&](const std::string& name) {
    return formats::list_class(root, name, endings).paths.size() > 0;
  });
}

/// Folders and lists are opened without an index; where one is asked for, something else is meant.
void check_is_shards(const DataOptions& data) {
  if (formats::WebdatasetFormat().accepts(data.sources)) return;
  const auto refuse = [&data](const char* what) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: {}", printable(data.sources.at(0)), what));
  };
  if (formats::FileListFormat().accepts(data.sources)) refuse("a list needs no index");
  if (formats::ImageFolderFormat().accepts(data.sources) && has_pictures(data)) {
    refuse("an image folder needs no index; --crop-index makes its crop index");
  }
}

/// "crop index: 12 of 24 pictures; without: 8 too small, 4 not JPEG".
void print_crops(const formats::Dataset& set) {
  std::string gaps;
  for (const auto& [reason, count] : set.crop_index_gaps()) {
    gaps += fmt::format("{} {} {}", gaps.empty() ? "; without:" : ",", with_commas(count),
                        printable(reason));
  }
  fmt::print("crop index: {} of {} pictures{}\n", with_commas(set.crop_index_count()),
             with_commas(set.size()), gaps);
}

/// Of an image folder there is nothing to be made but crop indexes.
int run_folder(const Options& options, const formats::OpenOptions& format,
               std::optional<Progress>& progress) {
  const auto set = formats::open_dataset(options.data.sources, format);
  progress.reset();
  if (options.as_json) {
    nlohmann::ordered_json json = {{"samples", set->size()},
                                   {"crop_indexes", set->crop_index_count()},
                                   {"without_crop_index", set->crop_index_gaps()},
                                   {"fingerprint", set->fingerprint()},
                                   {"warnings", set->warnings()}};
    put_text(json, "index", set->crop_index_path());
    print_json(json);
    return kGood;
  }
  for (const std::string& warning : set->warnings()) note(warning);
  fmt::print("index: {}\n", printable(set->crop_index_path()));
  print_crops(*set);
  return kGood;
}

int run(const Options& options) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  formats::OpenOptions format = options.data.format;
  check_used(options);
  format.store_index = formats::StoreIndex::kMust;
  if (format.label_field == "none") format.label_field.clear();
  if (!options.exchange.format.empty() || !options.exchange.import_path.empty()) {
    check_is_shards(options.data);
    const bool exports = !options.exchange.format.empty();
    return (exports ? export_index : import_index)(options.data.sources, options.exchange, format,
                                                   options.as_json);
  }
  std::optional<Progress> progress;
  std::optional<InterruptGuard> interrupt;
  std::optional<InterruptGuard::Asking> asking;
  if (format.make_crop_index) {
    interrupt.emplace();
    asking.emplace(*interrupt);
    progress.emplace("pictures", 0);
    format.crop_index_progress = [&](std::uint64_t picture_count, double share) {
      if (interrupt->is_interrupted()) {
        throw Error(ErrorCode::kCancelled, "interrupted; no index was written or changed");
      }
      progress->update(picture_count, share);
    };
    const formats::WebdatasetFormat shards;
    if (!shards.accepts(options.data.sources)) return run_folder(options, format, progress);
  } else {
    check_is_shards(options.data);
  }
  const auto set = formats::open_shards(options.data.sources, format);
  formats::require_named_labels(*set, format);
  progress.reset();
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  if (options.as_json) {
    nlohmann::ordered_json json = {{"shards", set->shards().size()},
                                   {"samples", set->entry_count()},
                                   {"images", set->size()},
                                   {"fields", set->field_names()},
                                   {"labels", set->label_source()},
                                   {"crop_indexes", set->crop_index_count()},
                                   {"without_crop_index", set->crop_index_gaps()},
                                   {"fingerprint", set->fingerprint()},
                                   {"max_image_bytes", set->max_image_bytes()},
                                   {"mean_image_bytes", set->mean_image_bytes()},
                                   {"seconds", seconds},
                                   {"warnings", set->warnings()}};
    put_text(json, "index", set->index_path());
    print_json(json);
    return kGood;
  }
  for (const std::string& warning : set->warnings()) note(warning);
  std::string names;
  for (const std::string& name : set->field_names()) names += " " + printable(name);
  fmt::print(
      "{} samples with an image of {} in {}; fields:{}; labels: {}; fingerprint {}; {:.2f} s\n"
      "index: {}\n",
      with_commas(set->size()), with_commas(set->entry_count()),
      formats::counted(set->shards().size(), "shard"), names, set->label_source(),
      set->fingerprint(), seconds, printable(set->index_path()));
  if (format.make_crop_index) print_crops(*set);
  return kGood;
}

/// Commands that load have an option of the same name that takes one.
CLI::Validator without_value() {
  return {[](std::string& text) -> std::string {
            if (text == "true") return {};  // The parser's own, of a flag that is there.
            return "takes no value; auto and off are for commands that load";
          },
          ""};
}

}  // namespace

void add_index(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("index", "Make or refresh the index of tar shards, or a crop index");
  options->data.add_to(*command);
  command->add_option("--threads", options->data.format.thread_count,
                      "Threads that read headers; 0: one for each usable core");
  CLI::Option* rebuilt = command->add_flag("--rebuild", options->data.format.rebuild_index,
                                           "Make it anew even if the stored one fits");
  CLI::Option* with_crops =
      command
          ->add_flag(
              "--crop-index", options->data.format.make_crop_index,
              "Also of each JPEG in an image folder or tar shards (not a list), so that crops "
              "are decoded faster: at most 1.5 % of the data")
          ->check(without_value());
  CLI::Option* exported = command
                              ->add_option("--format", options->exchange.format,
                                           "Write an index for another loader instead")
                              ->check(CLI::IsMember({"dali", "wids"}))
                              // Of what is written for others they would change nothing.
                              ->excludes(rebuilt)
                              ->excludes(with_crops);
  for (const char* name :
       {"--image-fields", "--label-field", "--label-json-key", "--label-file", "--cache-dir"}) {
    options->of_contents.push_back(command->get_option(name));
  }
  command
      ->add_option("--to", options->exchange.target,
                   "Where that goes: a folder for dali, a file for wids; beside the shards if left "
                   "out")
      ->check(not_empty())
      ->needs(exported);
  command
      ->add_option("--import", options->exchange.import_path,
                   "Make the index from one of another loader: a folder with DALI's .idx files, a "
                   "wids .json, or Energon's .nv-meta")
      ->check(not_empty())
      ->excludes(exported)
      ->excludes(rebuilt)  // It is made anew in any case.
      ->excludes(with_crops);
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
