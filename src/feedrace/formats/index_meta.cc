// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/index_meta.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"

namespace feedrace::formats {
namespace {

using nlohmann::json;

/// Throws std::invalid_argument for what is no name.
std::string name_from_json(const json& value) {
  std::optional<std::string> name = text_from_json(value);
  if (!name) throw std::invalid_argument("a name that is none");
  return *std::move(name);
}

json findings_to_json(const Findings& findings) {
  json kinds = json::array();
  for (const Findings::Kind& kind : findings.kinds()) {
    json names = json::array();
    for (const std::string& name : kind.names) names.push_back(text_to_json(name));
    kinds.push_back({{"what", kind.what}, {"count", kind.count}, {"names", std::move(names)}});
  }
  return kinds;
}

Findings findings_from_json(const json& kinds) {
  Findings findings;
  for (const json& value : kinds) {
    Findings::Kind kind{
        value.at("what").get<std::string>(), value.at("count").get<std::uint64_t>(), {}};
    for (const json& name : value.at("names")) kind.names.push_back(name_from_json(name));
    findings.add_kind(std::move(kind));
  }
  return findings;
}

json shard_to_json(const IndexMeta::Shard& shard) {
  json value = {{"name", text_to_json(shard.name)},    {"size", shard.identity.size_bytes},
                {"mtime_ns", shard.identity.mtime_ns}, {"hash", shard.identity.hash},
                {"samples", shard.sample_count},       {"members", shard.member_count},
                {"images", shard.image_count},         {"digest", shard.digest}};
  if (shard.crop_index_count) value["crop_indexes"] = *shard.crop_index_count;
  if (!shard.crop_index_gaps.empty()) value["without_crop_index"] = shard.crop_index_gaps;
  if (!shard.findings.empty()) value["findings"] = findings_to_json(shard.findings);
  return value;
}

/// The caller hands these on as they are, so that nothing else may be in them.
std::string digest_from_json(const json& value) {
  constexpr std::size_t kDigits = 16;
  auto text = value.get<std::string>();
  if (text.size() == kDigits && text.find_first_not_of("0123456789abcdef") == std::string::npos) {
    return text;
  }
  throw std::invalid_argument("a digest is 16 hex digits");
}

IndexMeta::Shard shard_from_json(const json& value) {
  IndexMeta::Shard shard;
  shard.name = name_from_json(value.at("name"));
  shard.identity = {value.at("size").get<std::uint64_t>(), value.at("mtime_ns").get<std::int64_t>(),
                    value.at("hash").get<std::string>()};
  shard.sample_count = value.at("samples").get<std::uint64_t>();
  shard.member_count = value.at("members").get<std::uint64_t>();
  shard.image_count = value.at("images").get<std::uint64_t>();
  shard.digest = digest_from_json(value.at("digest"));
  if (const auto found = value.find("crop_indexes"); found != value.end()) {
    shard.crop_index_count = found->get<std::uint64_t>();
    shard.crop_index_gaps = value.value("without_crop_index", CropIndexGaps());
  }
  if (const auto found = value.find("findings"); found != value.end()) {
    shard.findings = findings_from_json(*found);
  }
  return shard;
}

/// True when the parts add up to the whole, without overflow.
bool sums_agree(const IndexMeta& meta) noexcept {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max() / 64;
  std::uint64_t samples = 0;
  std::uint64_t members = 0;
  std::uint64_t images = 0;
  for (const IndexMeta::Shard& shard : meta.shards) {
    if (shard.sample_count > kMost - samples || shard.member_count > kMost - members) return false;
    if (shard.image_count > shard.sample_count) return false;
    if (shard.crop_index_count > shard.image_count) return false;
    samples += shard.sample_count;
    members += shard.member_count;
    images += shard.image_count;
  }
  return samples == meta.sample_count && members == meta.member_count && images == meta.image_count;
}

IndexMeta from_valid_json(const json& root) {
  IndexMeta meta;
  meta.options = root.at("options").get<std::string>();
  for (const json& shard : root.at("shards")) meta.shards.push_back(shard_from_json(shard));
  for (const json& field : root.at("fields")) meta.fields.push_back(name_from_json(field));
  meta.sample_count = root.at("samples").get<std::uint64_t>();
  meta.member_count = root.at("members").get<std::uint64_t>();
  meta.image_count = root.at("images").get<std::uint64_t>();
  meta.labelled_count = root.at("labelled").get<std::uint64_t>();
  meta.bad_label_count = root.at("bad_labels").get<std::uint64_t>();
  meta.unlabelled_count = root.at("unlabelled").get<std::uint64_t>();
  meta.max_image_bytes = root.at("max_image_bytes").get<std::uint64_t>();
  meta.mean_image_bytes = root.at("mean_image_bytes").get<double>();
  meta.fingerprint = root.at("fingerprint").get<std::string>();
  meta.key_fingerprint = digest_from_json(root.at("key_fingerprint"));
  meta.key_set_fingerprint = digest_from_json(root.at("key_set_fingerprint"));
  return meta;
}

}  // namespace

bool IndexMeta::has_crop_indexes() const noexcept {
  return std::any_of(shards.begin(), shards.end(),
                     [](const Shard& shard) { return shard.crop_index_count.has_value(); });
}

std::uint64_t IndexMeta::crop_index_count() const noexcept {
  std::uint64_t count = 0;
  for (const Shard& shard : shards) count += shard.crop_index_count.value_or(0);
  return count;
}

CropIndexGaps IndexMeta::crop_index_gaps() const {
  CropIndexGaps gaps;
  for (const Shard& shard : shards) add_gaps(shard.crop_index_gaps, gaps);
  return gaps;
}

std::string IndexMeta::to_json() const {
  json shard_list = json::array();
  for (const Shard& shard : shards) shard_list.push_back(shard_to_json(shard));
  json field_list = json::array();
  for (const std::string& field : fields) field_list.push_back(text_to_json(field));
  const json root = {{"format", "feedrace index"},
                     {"version", kIndexVersion},
                     {"options", options},
                     {"samples", sample_count},
                     {"members", member_count},
                     {"images", image_count},
                     {"labelled", labelled_count},
                     {"bad_labels", bad_label_count},
                     {"unlabelled", unlabelled_count},
                     {"max_image_bytes", max_image_bytes},
                     {"mean_image_bytes", mean_image_bytes},
                     {"fingerprint", fingerprint},
                     {"key_fingerprint", key_fingerprint},
                     {"key_set_fingerprint", key_set_fingerprint},
                     {"fields", std::move(field_list)},
                     {"shards", std::move(shard_list)}};
  return root.dump(1) + "\n";
}

Result<IndexMeta> IndexMeta::from_json(std::string_view text) {
  Result<json> root = parse_json(text);
  if (!root) return root.error();
  try {
    const auto version = root->at("version").get<std::uint64_t>();
    if (version != kIndexVersion) {
      return Failure{ErrorCode::kCorruptData,
                     fmt::format("an index of version {}, where this program has version {}",
                                 version, kIndexVersion)};
    }
    IndexMeta meta = from_valid_json(*root);
    if (sums_agree(meta)) return meta;
    return Failure{ErrorCode::kCorruptData, "shards do not add up to the set"};
  } catch (const json::out_of_range&) {  // Its text is of the library's own words.
    return Failure{ErrorCode::kCorruptData, "damaged: a member is missing"};
  } catch (const json::exception&) {
    return Failure{ErrorCode::kCorruptData, "damaged: a member is of the wrong kind"};
  } catch (const std::exception& error) {
    return Failure{ErrorCode::kCorruptData, printable(error.what())};
  }
}

}  // namespace feedrace::formats
