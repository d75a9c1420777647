// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/pack.h"

namespace feedrace::pack {
namespace {

using formats::counted;

/// What headers and padding add to what is packed.
double overhead_percent(const PackPlan& plan) {
  if (plan.payload_bytes == 0) return 0;
  return 100 * (static_cast<double>(plan.size_bytes) / static_cast<double>(plan.payload_bytes) - 1);
}

std::string sizes(const PackPlan& plan) {
  const char* about = plan.change.empty() ? "" : "about ";
  const std::string largest = human_bytes(plan.largest_shard_bytes);
  const std::string extent = plan.shard_count == 1
                                 ? about + largest
                                 : fmt::format("at most {}{} each, {} in all", about, largest,
                                               human_bytes(plan.size_bytes));
  return fmt::format("shards: {}, {}, of which {:.1f} % are headers and padding\n",
                     with_commas(plan.shard_count), extent, overhead_percent(plan));
}

}  // namespace

std::string to_text(const PackPlan& plan) {
  std::string text =
      fmt::format("source: {}, {}, {}\n", plan.source_kind, counted(plan.sample_count, "sample"),
                  human_bytes(plan.source_bytes)) +
      sizes(plan);
  if (plan.excluded_count != 0) {
    text += fmt::format("excluded: {}\n", counted(plan.excluded_count, "sample"));
  }
  if (plan.unreadable_count != 0) {
    text += fmt::format("left out, as they can't be read: {}\n",
                        counted(plan.unreadable_count, "sample"));
  }
  if (plan.part_shard_count != plan.shard_count) {
    text += fmt::format("this part: {}\n", counted(plan.part_shard_count, "shard"));
  }
  if (plan.is_packed) {
    text += "packed already: the folder has all shards and the manifest; nothing to do\n";
  } else if (plan.finished_count != 0) {
    text += fmt::format("finished by an earlier run: {}\n", counted(plan.finished_count, "shard"));
  }
  text +=
      fmt::format("threads: {}; memory: {}\n", plan.thread_count, human_bytes(plan.memory_bytes));
  text += fmt::format("disk: {} needed, {} free\n", human_bytes(plan.needed_bytes),
                      human_bytes(plan.free_bytes));
  if (!plan.change.empty()) text += fmt::format("pictures: {}\n", plan.change);
  return text + fmt::format("storage: {}\n", plan.storage);
}

std::string to_text(const PackReport& report) {
  std::string text =
      fmt::format("{}: {} in {}, {}", report.was_packed ? "packed already" : "packed",
                  counted(report.sample_count, "sample"), counted(report.shard_count, "shard"),
                  human_bytes(report.size_bytes));
  if (report.was_packed) {
    text += "; the shards stay as they are";
  } else {
    text += fmt::format(", in {:.1f} s", report.seconds);
    if (report.finished_count != 0) {
      text += fmt::format("; {} finished before", counted(report.finished_count, "shard"));
    }
  }
  if (report.changed_count != 0) {
    text += fmt::format("; {} changed by this run", counted(report.changed_count, "picture"));
  }
  text += "\n";
  if (report.manifest_path.empty()) {
    return text + "a part: when all are packed, feedrace pack --finish makes index and manifest\n";
  }
  text += fmt::format("manifest: {}\nindex: {}\n", printable(report.manifest_path),
                      printable(report.index_path));
  if (report.crop_index_count != 0) {
    text += fmt::format("crop index: of {}\n", counted(report.crop_index_count, "picture"));
  }
  return text;
}

}  // namespace feedrace::pack
