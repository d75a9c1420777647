// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <nlohmann/json.hpp>

#include "feedrace/core/json_text.h"
#include "feedrace/verify.h"

namespace feedrace::pack {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const VerifyReport::Spread& spread) {
  if (spread.count == 0) return nullptr;
  return {{"smallest", spread.smallest},
          {"median", spread.median},
          {"largest", spread.largest},
          {"sum", spread.sum}};
}

Json json_of(const VerifyReport::ClassCount& one) {
  return {{"label", one.label}, {"samples", one.sample_count}};
}

Json json_of(const VerifyReport::Classes& classes) {
  if (!classes.is_known) return {{"count", nullptr}};
  return {{"count", classes.count},
          {"smallest", json_of(classes.smallest)},
          {"largest", json_of(classes.largest)},
          {"empty", classes.empty_count},
          {"first_empty", classes.first_empty}};
}

Json json_of(const VerifyReport::Finding& finding) {
  return {{"check", finding.check},
          {"bad", finding.is_bad},
          {"what", finding.what},
          {"count", finding.count},
          {"examples", finding.examples}};
}

}  // namespace

bool VerifyReport::is_good() const noexcept {
  return std::none_of(findings.begin(), findings.end(),
                      [](const Finding& finding) { return finding.is_bad; });
}

std::string VerifyReport::to_json() const {
  Json json = {{"good", is_good()},
               {"kind", kind},
               {"shards", shard_count},
               {"shard_bytes", shard_bytes},
               {"samples", sample_count},
               {"pictures", picture_count},
               {"decoded", decoded_count},
               {"flagged", flagged_count},
               {"bad_samples", bad_sample_count},
               {"manifest", has_manifest},
               {"checksums", checksum_count},
               {"index", index.empty() ? Json() : Json(index)}};
  json["fields"] = Json::array();
  for (const auto& [name, count] : fields) {
    Json field;
    put_text(field, "name", name);
    field["samples"] = count;
    json["fields"].push_back(std::move(field));
  }
  json["bytes"] = json_of(bytes);
  json["pixels"] = json_of(pixels);
  json["classes"] = classes ? json_of(*classes) : Json();
  json["findings"] = Json::array();
  for (const Finding& finding : findings) json["findings"].push_back(json_of(finding));
  json["threads"] = thread_count;
  json["seconds"] = seconds;
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace feedrace::pack
