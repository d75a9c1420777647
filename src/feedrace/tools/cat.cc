// SPDX-License-Identifier: Apache-2.0
// feedrace cat SHARD KEY FIELD: one member's bytes.

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/webdataset.h"
#include "feedrace/storage/backends.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/whole_file.h"

namespace feedrace::tools {
namespace {

struct Options {
  std::string shard;
  std::string key;
  std::string field;
};

int run(const Options& options) {
  formats::OpenOptions format;
  // Looking at a shard leaves its folder as it is.
  format.store_index = formats::StoreIndex::kNever;
  const auto set = formats::open_shards({options.shard}, format);
  for (std::size_t shard = 0; shard < set->shards().size(); ++shard) {
    const auto entry = set->find(shard, options.key);
    if (!entry) continue;
    const auto field = set->field(*entry, options.field);
    if (!field) {
      std::vector<std::string> names;
      for (const auto& each : set->fields(*entry)) names.push_back(printable(each.name));
      throw Error(
          ErrorCode::kNotFound,
          fmt::format("{}: sample {} has no field {}; it has {}", printable(set->shards()[shard]),
                      printable(options.key), printable(options.field), fmt::join(names, ", ")));
    }
    const auto backend = storage::simple_backend();
    auto file = backend->open(set->shards()[shard]);
    if (!file) raise(file.error());
    const std::vector<std::byte> bytes =
        read_range(*backend, **file, field->offset_bytes, field->size_bytes);
    std::fwrite(bytes.data(), 1, bytes.size(), stdout);
    return kGood;
  }
  throw Error(
      ErrorCode::kNotFound,
      fmt::format("{}: no sample has the key {}; feedrace ls {} lists them",
                  printable(options.shard), printable(options.key), printable(options.shard)));
}

}  // namespace

void add_cat(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("cat", "Write one field of a sample to standard output");
  command->add_option("shard", options->shard, "The shard, or shards")->required();
  command->add_option("key", options->key, "The sample's key")->required();
  command->add_option("field", options->field, "The field, such as jpg")->required();
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
