// SPDX-License-Identifier: Apache-2.0
// feedrace ls PATH: the samples of shards, a folder or a list, without reading them.

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/webdataset.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/json_text.h"

namespace feedrace::tools {
namespace {

struct Options {
  DataOptions data;
  bool as_json = false;
};

/// Prints an array element by element: a set may have more samples than fit in memory as text.
class JsonArray {
 public:
  void add(const nlohmann::ordered_json& element) {
    std::fputs(is_first_ ? "\n  " : ",\n  ", stdout);
    is_first_ = false;
    const std::string text = element.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::fwrite(text.data(), 1, text.size(), stdout);
  }

 private:
  bool is_first_ = true;
};

void list_shards_as_json(const formats::ShardSet& set) {
  std::fputs("{\"samples\": [", stdout);
  JsonArray array;
  for (std::uint64_t entry = 0; entry < set.entry_count(); ++entry) {
    nlohmann::ordered_json sample;
    put_text(sample, "key", set.entry_key(entry));
    put_text(sample, "shard", set.shards()[set.entry_shard(entry)]);
    nlohmann::ordered_json fields = nlohmann::ordered_json::object();
    for (const auto& field : set.fields(entry)) {
      const std::string name =
          is_utf8(field.name) ? std::string(field.name) : "hex:" + hex_of(field.name);
      fields[name] = {{"offset", field.offset_bytes}, {"size", field.size_bytes}};
    }
    sample["fields"] = std::move(fields);
    array.add(sample);
  }
  std::fputs("\n]}\n", stdout);
}

void list_shards_as_text(const formats::ShardSet& set) {
  for (std::uint64_t entry = 0; entry < set.entry_count(); ++entry) {
    std::string fields;
    for (const auto& field : set.fields(entry)) {
      fields += fmt::format("{}{} {}", fields.empty() ? "  " : ", ", printable(field.name),
                            formats::counted(field.size_bytes, "byte"));
    }
    fmt::print("{}  {}{}\n", printable(set.shards()[set.entry_shard(entry)]),
               printable(set.entry_key(entry)), fields);
  }
}

/// A path as `ls` gives it: text, or {"path_hex"} where it is not UTF-8.
nlohmann::ordered_json path_json(const std::string& path) {
  if (is_utf8(path)) return path;
  return {{"path_hex", hex_of(path)}};
}

std::string label_text(const formats::Dataset& dataset, std::uint64_t sample) {
  const auto label = dataset.label(sample);
  return label ? std::to_string(*label) : "?";
}

void list_files_as_json(const formats::Dataset& dataset) {
  nlohmann::ordered_json classes = nlohmann::ordered_json::array();
  for (const std::string& name : dataset.classes()) classes.push_back(path_json(name));
  std::fputs("{\"classes\": ", stdout);
  std::fputs(classes.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str(),
             stdout);
  std::fputs(",\n \"samples\": [", stdout);
  JsonArray array;
  for (std::uint64_t sample = 0; sample < dataset.size(); ++sample) {
    const auto label = dataset.label(sample);
    if (!label) raise(label.error());
    array.add({path_json(dataset.key(sample)), *label});
  }
  std::fputs("\n]}\n", stdout);
}

void list_files_as_text(const formats::Dataset& dataset) {
  for (std::uint64_t sample = 0; sample < dataset.size(); ++sample) {
    fmt::print("{}  label {}\n", printable(dataset.key(sample)), label_text(dataset, sample));
  }
}

int run(const Options& options) {
  formats::OpenOptions format = options.data.format;
  format.store_index = formats::StoreIndex::kNever;  // Looking at a folder leaves it as it is.
  if (format.label_field == "none") format.label_field.clear();
  if (formats::WebdatasetFormat().accepts(options.data.sources)) {
    const auto set = formats::open_shards(options.data.sources, format);
    warn(set->warnings());
    options.as_json ? list_shards_as_json(*set) : list_shards_as_text(*set);
    return kGood;
  }
  const auto dataset = formats::open_dataset(options.data.sources, format);
  warn(dataset->warnings());
  options.as_json ? list_files_as_json(*dataset) : list_files_as_text(*dataset);
  return kGood;
}

}  // namespace

void add_ls(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("ls", "List the samples of shards, a folder or a list");
  options->data.add_to(*command);
  command->add_flag("--json", options->as_json, "Print JSON");
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
