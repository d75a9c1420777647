// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/bad_sample.h"

#include <nlohmann/json.hpp>

#include "feedrace/core/json_text.h"

namespace feedrace::formats {
namespace {

using nlohmann::json;

std::optional<std::uint64_t> number_at(const json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_number_unsigned()) return std::nullopt;
  return found->get<std::uint64_t>();
}

void put_number(json& line, const char* name, std::optional<std::uint64_t> value) {
  if (value) line[name] = *value;
}

}  // namespace

std::string BadSample::to_line() const {
  json line;
  if (set) put_text(line, "set", *set);
  if (shard.empty()) {
    line["shard"] = nullptr;
  } else {
    put_text(line, "shard", shard);
  }
  put_text(line, "key", key);
  line["offset"] = offset_bytes;
  put_number(line, "size", size_bytes);
  put_number(line, "sample", sample);
  put_number(line, "epoch", epoch);
  line["code"] = code;
  line["reason"] = reason;  // Of a library's, perhaps: what is not UTF-8 in it is replaced.
  return line.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::optional<BadSample> BadSample::from_line(std::string_view line) {
  const json value = parse_shallow_json(line);
  if (!value.is_object()) return std::nullopt;
  std::optional<std::string> key = text_at(value, "key");
  if (!key) return std::nullopt;
  BadSample sample;
  sample.key = *std::move(key);
  sample.set = text_at(value, "set");
  sample.shard = text_at(value, "shard").value_or("");
  sample.offset_bytes = number_at(value, "offset").value_or(0);
  sample.size_bytes = number_at(value, "size");
  sample.sample = number_at(value, "sample");
  sample.epoch = number_at(value, "epoch");
  sample.code = text_at(value, "code").value_or("");
  sample.reason = text_at(value, "reason").value_or("");
  return sample;
}

}  // namespace feedrace::formats
