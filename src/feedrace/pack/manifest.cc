// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/manifest.h"

#include <algorithm>
#include <optional>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::pack {
namespace {

using nlohmann::json;

constexpr std::size_t kHashDigits = 32;

/// What is wrong with a manifest, on its way to `from_json`.
struct Wrong {
  std::string what;
};

std::string text_of(const json& value) {
  std::optional<std::string> text = text_from_json(value);
  if (!text) throw Wrong{"a name that is none"};
  return *std::move(text);
}

bool is_hash(std::string_view text) {
  return text.size() == kHashDigits && text.find_first_not_of("0123456789abcdef") == text.npos;
}

Manifest::Shard shard_of(const json& value) {
  Manifest::Shard shard{text_of(value.at("name")), value.at("size").get<std::uint64_t>(),
                        value.at("samples").get<std::uint64_t>(),
                        value.at("xxh3_128").get<std::string>()};
  // A manifest from elsewhere must not lead out of its folder.
  const bool is_base_name = !shard.name.empty() && shard.name != "." && shard.name != ".." &&
                            shard.name.find('/') == std::string::npos;
  if (!is_base_name) throw Wrong{fmt::format("shard name {} is none", printable(shard.name))};
  if (!is_hash(shard.xxh3_128)) throw Wrong{"a checksum that is none"};
  return shard;
}

void check(const Manifest& manifest, const json& value) {
  std::unordered_set<std::string_view> names;
  for (const Manifest::Shard& shard : manifest.shards) {
    if (!names.insert(shard.name).second) {
      throw Wrong{fmt::format("shard {} is in it twice", printable(shard.name))};
    }
  }
  const bool agrees = value.at("samples").get<std::uint64_t>() == manifest.sample_count() &&
                      value.at("size").get<std::uint64_t>() == manifest.size_bytes();
  if (!agrees) throw Wrong{"sums that disagree with its shards"};
}

Manifest read(const json& value) {
  if (!value.is_object()) throw Wrong{"no JSON object"};
  const auto version = value.at("version").get<std::uint64_t>();
  if (version != kManifestVersion) {
    throw Wrong{fmt::format("of version {}, and this program reads {}", version, kManifestVersion)};
  }
  Manifest manifest;
  manifest.source = value.at("source").get<std::string>();
  manifest.options = value.at("options").dump();
  if (value.contains("classes_xxh3_128")) {
    manifest.classes_xxh3_128 = value.at("classes_xxh3_128").get<std::string>();
    if (!is_hash(manifest.classes_xxh3_128)) throw Wrong{"a checksum of the classes that is none"};
  }
  for (const json& shard : value.at("shards")) manifest.shards.push_back(shard_of(shard));
  for (const json& one : value.at("left_out")) {
    manifest.left_out.push_back({text_of(one.at("key")), text_of(one.at("reason"))});
  }
  check(manifest, value);
  return manifest;
}

}  // namespace

std::uint64_t Manifest::sample_count() const noexcept {
  std::uint64_t sum = 0;
  for (const Shard& shard : shards) sum += shard.sample_count;
  return sum;
}

std::uint64_t Manifest::size_bytes() const noexcept {
  std::uint64_t sum = 0;
  for (const Shard& shard : shards) sum += shard.size_bytes;
  return sum;
}

std::string Manifest::to_json() const {
  nlohmann::ordered_json value = {{"format", "feedrace manifest"},
                                  {"version", kManifestVersion},
                                  {"source", source},
                                  {"options", json::parse(options.empty() ? "{}" : options)},
                                  {"samples", sample_count()},
                                  {"size", size_bytes()}};
  if (!classes_xxh3_128.empty()) value["classes_xxh3_128"] = classes_xxh3_128;
  value["shards"] = json::array();
  for (const Shard& shard : shards) {
    value["shards"].push_back({{"name", text_to_json(shard.name)},
                               {"size", shard.size_bytes},
                               {"samples", shard.sample_count},
                               {"xxh3_128", shard.xxh3_128}});
  }
  value["left_out"] = json::array();
  for (const LeftOut& one : left_out) {
    value["left_out"].push_back(
        {{"key", text_to_json(one.key)}, {"reason", text_to_json(one.reason)}});
  }
  return value.dump(1) + "\n";
}

Result<Manifest> Manifest::from_json(std::string_view text) {
  const auto corrupt = [](std::string what) {
    return Failure{ErrorCode::kCorruptData, std::move(what)};
  };
  try {
    return read(parse_shallow_json(text));
  } catch (const Wrong& wrong) {
    return corrupt(wrong.what);
  } catch (const json::exception&) {
    return corrupt("a member is missing or of the wrong type");
  }
}

Result<Manifest> read_manifest(const std::string& path) {
  const std::string file = path + "/" + kManifestFile;
  const Result<std::string> text = formats::read_whole_file(file);
  if (!text) return text.error();
  Result<Manifest> manifest = Manifest::from_json(*text);
  if (manifest) return manifest;
  return Failure{manifest.error().code,
                 fmt::format("{}: {}", printable(file), manifest.error().message)};
}

}  // namespace feedrace::pack
