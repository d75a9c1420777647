// SPDX-License-Identifier: Apache-2.0
#include "feedrace/exchange/energon_info.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/text.h"
#include "feedrace/exchange/foreign_index.h"

namespace feedrace::exchange {
namespace {

/// `  train-000.tar: 123`, of what Energon's YAML writer writes and no other YAML.
std::optional<EnergonShard> shard_of_line(std::string_view line) {
  const std::size_t colon = line.rfind(": ");
  if (!line.starts_with("  ") || colon == std::string_view::npos) return std::nullopt;
  std::string_view name = line.substr(2, colon - 2);
  const bool is_quoted = name.size() >= 2 && name.front() == '\'' && name.back() == '\'';
  if (is_quoted) name = name.substr(1, name.size() - 2);
  EnergonShard shard{std::string(name), 0};
  const char* end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data() + colon + 2, end, shard.sample_count);
  const bool is_plain = name.find_first_of("'\"\\#") == std::string_view::npos && !name.empty();
  if (error != std::errc() || stop != end || !is_plain) return std::nullopt;
  return shard;
}

Failure no_counts(const std::string& path, const std::string& what) {
  return {ErrorCode::kCorruptData,
          fmt::format("{}: no \"shard_counts\" of shard names and numbers: {}; make it anew with "
                      "energon prepare",
                      printable(path), what)};
}

/// Takes "shard_counts" out of the JSON as it is read: the order of the members counts, which a
/// JSON value does not keep, and there may be very many.
class InfoReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<EnergonShard> shards;
  std::string wrong;  ///< What is wrong with the counts; empty: nothing.

  bool null() override { return other(); }
  bool boolean(bool) override { return other(); }
  bool number_integer(number_integer_t) override { return other(); }
  bool number_float(number_float_t, const string_t&) override { return other(); }
  bool string(string_t&) override { return other(); }
  bool binary(binary_t&) override { return other(); }
  bool number_unsigned(number_unsigned_t count) override {
    if (!is_count()) return other();
    shards.push_back({name_, count});
    return true;
  }
  bool key(string_t& name) override {
    if (depth_ == 1) is_inside_ = name == "shard_counts";
    if (depth_ == 1 && is_inside_ && std::exchange(has_counts_, true)) return refuse("two of them");
    if (depth_ == 2) name_ = name;
    return true;
  }
  bool start_object(std::size_t) override {
    const bool is_counts = depth_ == 1 && is_inside_;
    if (!is_counts && !other()) return false;
    ++depth_;
    return true;
  }
  bool end_object() override { return end(); }
  bool start_array(std::size_t) override {
    if (!other()) return false;
    ++depth_;
    return true;
  }
  bool end_array() override { return end(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override {
    return refuse("it is no JSON");
  }

 private:
  bool is_count() const noexcept { return is_inside_ && depth_ == 2; }
  /// Any value but a number from 0 up: wrong in the counts, and no matter elsewhere.
  bool other() {
    if (is_inside_ && depth_ == 1) return refuse("there are none");
    if (!is_count()) return true;
    return refuse(fmt::format("that of {} is no number of samples", printable(name_)));
  }
  bool end() {
    --depth_;
    return true;
  }
  bool refuse(std::string what) {
    wrong = std::move(what);
    return false;
  }

  std::size_t depth_ = 0;  // Objects and lists around what comes next.
  bool is_inside_ = false;
  bool has_counts_ = false;
  std::string name_;
};

}  // namespace

Result<std::vector<EnergonShard>> parse_energon_yaml(std::string_view text,
                                                     const std::string& path) {
  std::vector<EnergonShard> shards;
  bool is_inside = false;
  for (std::uint64_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (line.front() != ' ') {
      is_inside = line == "shard_counts:";
      continue;
    }
    if (!is_inside) continue;
    std::optional<EnergonShard> shard = shard_of_line(line);
    if (!shard) return no_counts(path, fmt::format("line {} is no shard and number", number));
    shards.push_back(*std::move(shard));
  }
  if (shards.empty()) return no_counts(path, "there are none");
  return shards;
}

Result<std::vector<EnergonShard>> parse_energon_json(std::string_view text,
                                                     const std::string& path) {
  InfoReader reader;
  const bool is_read = nlohmann::json::sax_parse(text, &reader);
  if (!is_read) return no_counts(path, reader.wrong);
  if (reader.shards.empty()) return no_counts(path, "there are none");
  return std::move(reader.shards);
}

std::vector<EnergonShard> read_energon_info(const std::string& folder) {
  const std::string json_path = folder + "/.info.json";
  const std::string yaml_path = folder + "/.info.yaml";
  Result<std::string> text = read_index_text(json_path, kMostListBytes);
  const bool is_json = text || text.error().code != ErrorCode::kNotFound;
  if (!is_json) text = read_index_text(yaml_path, kMostListBytes);
  if (!text) raise(text.error());
  auto shards =
      is_json ? parse_energon_json(*text, json_path) : parse_energon_yaml(*text, yaml_path);
  if (!shards) raise(shards.error());
  return *std::move(shards);
}

}  // namespace feedrace::exchange
