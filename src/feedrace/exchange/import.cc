// SPDX-License-Identifier: Apache-2.0
#include "feedrace/exchange/import.h"

#include <optional>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/exchange/foreign_index.h"
#include "feedrace/exchange/foreign_scan.h"
#include "feedrace/formats/labels.h"
#include "feedrace/formats/shard_sources.h"
#include "feedrace/formats/webdataset.h"

namespace feedrace::exchange {
namespace {

/// A shard that only one side knows would be lost in silence.
void check_names(const std::vector<std::string>& paths, const ForeignIndex& index,
                 const std::string& index_path) {
  std::unordered_map<std::string, std::string> names;
  for (const std::string& path : paths) {
    const auto [other, is_new] = names.emplace(formats::base_name(path), path);
    if (is_new) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} and {}: the index knows shards by their names alone; import sets "
                            "whose shards have different names",
                            printable(other->second), printable(path)));
  }
  for (const std::string& name : index.shard_names()) {
    if (names.contains(name)) continue;
    throw Error(ErrorCode::kNotFound,
                fmt::format("{}: has a shard {} that is not among those named; name all of its "
                            "shards",
                            printable(index_path), printable(name)));
  }
}

}  // namespace

ImportedIndex import_index(const std::vector<std::string>& shards, const std::string& index_path,
                           formats::OpenOptions options) {
  const std::unique_ptr<ForeignIndex> index = open_foreign_index(index_path);
  check_names(formats::find_shards(shards).paths, *index, index_path);
  formats::LabelMap by_key;
  formats::LabelSource labels{options.label_field, options.label_json_key, nullptr};
  if (!options.label_file.empty()) {
    by_key = formats::read_label_file(options.label_file);
    labels.by_key = &by_key;
  }
  ImportedIndex imported;
  imported.kind = index->kind();
  options.rebuild_index = true;  // What is stored was not compared with this index.
  imported.set = formats::open_shards(shards, options, [&](const std::string& path) {
    const Result<ForeignShard> foreign = index->shard(path);
    if (!foreign) raise(foreign.error());
    Result<formats::ShardScan> scan = scan_by_index(path, *foreign, labels);
    if (!scan) raise(scan.error());
    return *std::move(scan);
  });
  return imported;
}

}  // namespace feedrace::exchange
