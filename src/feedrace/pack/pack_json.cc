// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "feedrace/core/json_text.h"
#include "feedrace/pack.h"

namespace feedrace::pack {

std::string to_json(const PackPlan& plan) {
  const nlohmann::ordered_json json = {{"source", plan.source_kind},
                                       {"fingerprint", plan.source_fingerprint},
                                       {"samples", plan.sample_count},
                                       {"excluded", plan.excluded_count},
                                       {"unreadable", plan.unreadable_count},
                                       {"shards", plan.shard_count},
                                       {"shards_of_part", plan.part_shard_count},
                                       {"shards_finished", plan.finished_count},
                                       {"packed_already", plan.is_packed},
                                       {"source_bytes", plan.source_bytes},
                                       {"payload_bytes", plan.payload_bytes},
                                       {"size_bytes", plan.size_bytes},
                                       {"largest_shard_bytes", plan.largest_shard_bytes},
                                       {"threads", plan.thread_count},
                                       {"memory_bytes", plan.memory_bytes},
                                       {"needed_bytes", plan.needed_bytes},
                                       {"free_bytes", plan.free_bytes},
                                       {"fits", plan.fits()},
                                       {"storage", plan.storage},
                                       {"change", plan.change},
                                       {"change_size_ratio", plan.change_size_ratio},
                                       {"change_speed_ratio", plan.change_speed_ratio},
                                       {"warnings", plan.warnings}};
  return json.dump();
}

std::string to_json(const PackReport& report) {
  nlohmann::ordered_json json = {{"shards", report.shard_count},
                                 {"shards_found_finished", report.finished_count},
                                 {"packed_already", report.was_packed},
                                 {"samples", report.sample_count},
                                 {"size_bytes", report.size_bytes},
                                 {"seconds", report.seconds},
                                 {"failed", report.failed_count},
                                 {"key_fingerprint", report.key_fingerprint},
                                 {"crop_indexes", report.crop_index_count},
                                 {"changed", report.changed_count},
                                 {"warnings", report.warnings}};
  put_text(json, "manifest", report.manifest_path);
  put_text(json, "index", report.index_path);
  json["left_out"] = nlohmann::ordered_json::array();
  for (const LeftOutSample& one : report.left_out) {
    nlohmann::ordered_json sample;
    put_text(sample, "key", one.key);
    put_text(sample, "reason", one.reason);
    json["left_out"].push_back(std::move(sample));
  }
  json["fallbacks"] = nlohmann::ordered_json::array();
  for (const FallbackCount& one : report.fallbacks) {
    json["fallbacks"].push_back({{"what", one.sentence}, {"count", one.count}});
  }
  return json.dump();
}

}  // namespace feedrace::pack
