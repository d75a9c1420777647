// SPDX-License-Identifier: Apache-2.0
// Shard lists of wids, the random access that webdataset had up to 0.2: a JSON document that names
// shards and their numbers of samples, not what is in them.

#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"
#include "feedrace/exchange/foreign_index.h"
#include "feedrace/exchange/wids_export.h"
#include "feedrace/formats/pending_file.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::exchange {
namespace {

using nlohmann::json;

constexpr const char* kKind = "wids-shard-index-v1";
constexpr int kVersion = 1;

[[noreturn]] void refuse_list(const std::string& path) {
  throw Error(ErrorCode::kCorruptData,
              fmt::format("{}: no shard list of wids: a \"shardlist\" of objects with \"url\" and "
                          "\"nsamples\"; make it anew with widsindex",
                          printable(path)));
}

class WidsIndex : public ForeignIndex {
 public:
  WidsIndex(std::string path, const json& value) : path_(std::move(path)) {
    const json& list = value.at("shardlist");
    if (!list.is_array()) refuse_list(path_);
    // wids itself asks for the version alone; lists made by hand often have no kind.
    if (value.contains("__kind__")) expect(value, "__kind__", kKind);
    expect(value, "wids_version", kVersion);
    if (value.contains("datasets")) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: has \"datasets\", lists of other places, which are not read; "
                              "import a list of all shards",
                              printable(path_)));
    }
    for (const json& one : list) add(one);
  }

  std::string_view kind() const noexcept override { return "wids"; }
  const std::vector<std::string>& shard_names() const noexcept override { return names_; }

  Result<ForeignShard> shard(const std::string& path) const override {
    const auto found = shards_.find(formats::base_name(path));
    if (found != shards_.end()) return found->second;
    return Failure{ErrorCode::kNotFound, fmt::format("{}: knows no shard {}", printable(path_),
                                                     printable(formats::base_name(path)))};
  }

 private:
  void expect(const json& value, const char* member, const json& wanted) const {
    const auto found = value.find(member);
    if (found != value.end() && *found == wanted) return;
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("{}: {:?} is {}, not {}; make it anew with widsindex", printable(path_), member,
                    found == value.end() ? "not there" : printable(shown(*found)), wanted.dump()));
  }

  void add(const json& one) {
    ForeignShard shard;
    shard.sample_count = number(one.at("nsamples"));
    if (one.contains("filesize")) shard.size_bytes = number(one["filesize"]);
    const std::string name = formats::base_name(one.at("url").get<std::string>());
    if (!shards_.emplace(name, std::move(shard)).second) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("{}: entry {}: shard {} is in it twice; make it anew with widsindex",
                              printable(path_), names_.size() + 1, printable(name)));
    }
    names_.push_back(name);
  }

  std::uint64_t number(const json& value) const {
    if (value.is_number_unsigned()) return value.get<std::uint64_t>();
    throw Error(ErrorCode::kCorruptData,
                fmt::format("{}: entry {}: {} is no number of samples or bytes; make it anew with "
                            "widsindex",
                            printable(path_), names_.size() + 1, printable(shown(value))));
  }

  static std::string shown(const json& value) {
    constexpr std::size_t kMostBytes = 40;
    const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
    return text.size() > kMostBytes ? text.substr(0, kMostBytes) + "..." : text;
  }

  const std::string path_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, ForeignShard> shards_;
};

}  // namespace

std::unique_ptr<ForeignIndex> open_wids_index(const std::string& file) {
  const Result<std::string> text = read_index_text(file, kMostListBytes);
  if (!text) raise(text.error());
  try {
    return std::make_unique<WidsIndex>(file, parse_shallow_json(*text));
  } catch (const json::exception&) {
    refuse_list(file);
  }
}

bool is_wids_index(std::string_view head) {
  return head.starts_with('{') && head.find("wids-shard-index-v1") != std::string_view::npos;
}

void write_wids_index(const std::string& path, const std::string& name,
                      const std::vector<WidsShard>& shards) {
  // As `widsindex create` writes it, without checksums: wids checks those that are there.
  nlohmann::ordered_json value = {{"__kind__", kKind}, {"wids_version", kVersion}};
  value["shardlist"] = json::array();
  for (const WidsShard& shard : shards) {
    if (!is_utf8(shard.url)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: a name that is not UTF-8 has no place in JSON; rename the shard",
                              printable(shard.url)));
    }
    value["shardlist"].push_back(
        {{"url", shard.url}, {"nsamples", shard.sample_count}, {"filesize", shard.size_bytes}});
  }
  value["name"] = printable(name);
  const Result<void> put = formats::put_file(path, value.dump(2) + "\n");
  if (!put) raise(put.error());
}

}  // namespace feedrace::exchange
