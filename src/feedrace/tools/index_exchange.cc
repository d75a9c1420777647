// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/index_exchange.h"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/exchange/dali_export.h"
#include "feedrace/exchange/import.h"
#include "feedrace/exchange/wids_export.h"
#include "feedrace/formats/output_check.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/posix_file.h"
#include "feedrace/formats/shard_sources.h"
#include "feedrace/formats/webdataset.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/json_text.h"

namespace feedrace::tools {
namespace {

namespace fs = std::filesystem;

/// A path that leads from the folder of `file` to `shard`.
std::string relative_to(const std::string& file, const std::string& shard) {
  std::error_code error;
  const fs::path relative = fs::relative(shard, formats::folder_of(file), error);
  return error || relative.empty() ? fs::absolute(shard).string() : relative.string();
}

std::vector<std::string> write_wids(const std::vector<std::string>& shards,
                                    const ExchangeOptions& exchange, formats::OpenOptions format) {
  format.store_index = formats::StoreIndex::kTry;
  const auto set = formats::open_shards(shards, format);
  warn(set->warnings());
  const std::string path = exchange.target.empty()
                               ? formats::folder_of(set->shards()[0]) + "/shardindex.json"
                               : exchange.target;
  formats::check_output("--to", path, {shards, {format.label_file}, set.get()},
                        exchange::is_wids_index);
  std::vector<exchange::WidsShard> list;
  for (std::size_t i = 0; i < set->shards().size(); ++i) {
    const std::string& shard = set->shards()[i];
    std::error_code error;
    const std::uintmax_t size = fs::file_size(shard, error);
    if (error)
      throw Error(ErrorCode::kIo, fmt::format("{}: {}", printable(shard), error.message()));
    list.push_back({relative_to(path, shard), set->shard_begin(i + 1) - set->shard_begin(i), size});
  }
  exchange::write_wids_index(path, fs::path(path).stem().string(), list);
  return {path};
}

std::vector<std::string> write_dali(const std::vector<std::string>& shards,
                                    const ExchangeOptions& exchange,
                                    const formats::OpenOptions& format) {
  const std::size_t threads = format.thread_count > 0 ? format.thread_count : usable_cores();
  return exchange::write_dali_indexes(formats::find_shards(shards).paths, exchange.target, threads);
}

}  // namespace

int export_index(const std::vector<std::string>& shards, const ExchangeOptions& exchange,
                 const formats::OpenOptions& format, bool as_json) {
  const std::vector<std::string> written = exchange.format == "dali"
                                               ? write_dali(shards, exchange, format)
                                               : write_wids(shards, exchange, format);
  if (as_json) {
    nlohmann::ordered_json json = {{"format", exchange.format}, {"files", nlohmann::json::array()}};
    for (const std::string& path : written) json["files"].emplace_back(text_to_json(path));
    print_json(json);
    return kGood;
  }
  fmt::print(
      "{}: {}{}\n", exchange.format, printable(written.front()),
      written.size() == 1 ? "" : fmt::format(" and {} more", with_commas(written.size() - 1)));
  return kGood;
}

int import_index(const std::vector<std::string>& shards, const ExchangeOptions& exchange,
                 const formats::OpenOptions& format, bool as_json) {
  const exchange::ImportedIndex imported =
      exchange::import_index(shards, exchange.import_path, format);
  const formats::ShardSet& set = *imported.set;
  if (as_json) {
    nlohmann::ordered_json json = {
        {"imported", imported.kind},        {"shards", set.shards().size()},
        {"samples", set.entry_count()},     {"images", set.size()},
        {"fingerprint", set.fingerprint()}, {"warnings", set.warnings()}};
    put_text(json, "index", set.index_path());
    print_json(json);
    return kGood;
  }
  warn(set.warnings());
  fmt::print(
      "imported from {}, which agrees with every header: {} samples with an image of {} in {}; "
      "fingerprint {}\n"
      "index: {}\n",
      imported.kind, with_commas(set.size()), with_commas(set.entry_count()),
      formats::counted(set.shards().size(), "shard"), set.fingerprint(),
      printable(set.index_path()));
  return kGood;
}

}  // namespace feedrace::tools
