// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/state.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <exception>
#include <optional>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <xxhash.h>

#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"

namespace feedrace::order {
namespace {

using nlohmann::json;

constexpr const char* kFormatName = "feedrace state";
constexpr std::size_t kMostSets = 4096;
constexpr std::size_t kMostParts = 4096;
constexpr std::size_t kDigestDigits = 8;

std::string hash_text(std::string_view bytes) {
  return fmt::format("{:016x}", XXH3_64bits(bytes.data(), bytes.size()));
}

/// Over the members in the order of their names, so that a tool that sorts or indents them, as many
/// do with JSON that they pass on, does not break it.
std::string checksum_of(const json& root) {
  json rest = root;
  rest.erase("checksum");
  return hash_text(rest.dump());
}

json part_to_json(const StatePart& part) {
  json value = json::array({text_to_json(part.name), text_to_json(part.digest)});
  if (part.count != 1) value.push_back(part.count);
  return value;
}

nlohmann::ordered_json set_to_json(const SetState& set) {
  json parts = json::array();
  for (const StatePart& part : set.parts) parts.push_back(part_to_json(part));
  nlohmann::ordered_json value;
  value["name"] = text_to_json(set.name);
  value["sample_count"] = set.sample_count;
  value["selected_count"] = set.selected_count;
  value["fingerprint"] = text_to_json(set.fingerprint);
  value["key_fingerprint"] = text_to_json(set.key_fingerprint);
  value["key_set_fingerprint"] = text_to_json(set.key_set_fingerprint);
  value["subset"] = text_to_json(set.subset);
  value["repeat"] = set.repeat;
  value["weight"] = set.weight;
  value["position"] = set.position;
  value["parts"] = parts;
  return value;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("state: {}; it was edited or damaged, give it as it was saved", what));
}

/// A value as a message shows it.
std::string shown(const json& value) {
  constexpr std::size_t kMost = 40;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

/// The members of one object. Throws Error, with the place of what is wrong.
class Members {
 public:
  Members(const json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) refuse(fmt::format("{} is {}, no object", where_, shown(object)));
    if (!where_.empty()) where_ += '.';
  }

  std::uint64_t whole(const char* name) const { return as_whole(member(name), where_ + name); }

  std::string text(const char* name) const { return as_text(member(name), where_ + name); }

  double weight(const char* name) const {
    const json& value = member(name);
    const double weight = value.is_number() ? value.get<double>() : -1.0;
    if (!std::isfinite(weight) || weight < 0) {
      refuse(fmt::format("{}{} is {}, no number from 0 on", where_, name, shown(value)));
    }
    return weight;
  }

  const json& list(const char* name, std::size_t most) const {
    const json& value = member(name);
    if (!value.is_array()) {
      refuse(fmt::format("{}{} is {}, no list", where_, name, shown(value)));
    }
    if (value.size() > most) {
      refuse(fmt::format("{}{} has {} entries, more than {}", where_, name, value.size(), most));
    }
    return value;
  }

  const json& member(const char* name) const {
    const auto found = object_.find(name);
    if (found == object_.end()) refuse(fmt::format("{}{} is missing", where_, name));
    return *found;
  }

  static std::uint64_t as_whole(const json& value, const std::string& where) {
    if (!value.is_number_unsigned()) {
      refuse(fmt::format("{} is {}, no whole number from 0 to 2^64 - 1", where, shown(value)));
    }
    return value.get<std::uint64_t>();
  }

  static std::string as_text(const json& value, const std::string& where) {
    std::optional<std::string> text = text_from_json(value);
    if (!text) refuse(fmt::format("{} is {}, no text", where, shown(value)));
    return *std::move(text);
  }

 private:
  const json& object_;
  std::string where_;
};

StatePart part_from_json(const json& value, const std::string& where) {
  if (!value.is_array() || value.size() < 2 || value.size() > 3) {
    refuse(fmt::format("{} is {}, no [name, digest]", where, shown(value)));
  }
  StatePart part = {Members::as_text(value[0], where + "[0]"),
                    Members::as_text(value[1], where + "[1]")};
  if (value.size() == 3) part.count = Members::as_whole(value[2], where + "[2]");
  return part;
}

SetState set_from_json(const json& value, const std::string& where) {
  const Members members(value, where);
  SetState set;
  set.name = members.text("name");
  set.sample_count = members.whole("sample_count");
  set.selected_count = members.whole("selected_count");
  set.fingerprint = members.text("fingerprint");
  set.key_fingerprint = members.text("key_fingerprint");
  set.key_set_fingerprint = members.text("key_set_fingerprint");
  set.subset = members.text("subset");
  set.repeat = members.whole("repeat");
  set.weight = members.weight("weight");
  set.position = members.whole("position");
  for (const json& part : members.list("parts", kMostParts)) {
    set.parts.push_back(part_from_json(part, fmt::format("{}.parts[{}]", where, set.parts.size())));
  }
  return set;
}

State::Origin origin_from_json(const json& value, std::size_t set_count) {
  const Members members(value, "origin");
  State::Origin origin = {members.whole("epoch"), members.whole("position"), {}};
  for (const json& position : members.list("set_positions", kMostSets)) {
    origin.set_positions.push_back(Members::as_whole(
        position, fmt::format("origin.set_positions[{}]", origin.set_positions.size())));
  }
  if (origin.set_positions.size() != set_count) {
    refuse(fmt::format("origin.set_positions has {} entries for {} sets",
                       origin.set_positions.size(), set_count));
  }
  return origin;
}

Shuffle shuffle_from(const std::string& name) {
  constexpr std::array kAll = {Shuffle::kNone, Shuffle::kWindow, Shuffle::kGlobal};
  for (const Shuffle shuffle : kAll) {
    if (name == to_string(shuffle)) return shuffle;
  }
  refuse(fmt::format("shuffle is \"{}\", none of none, window, global", printable(name)));
}

State members_from_json(const json& root) {
  const Members members(root, "");
  State state;
  state.seed = members.whole("seed");
  state.epoch = members.whole("epoch");
  state.position = members.whole("position");
  state.shuffle = shuffle_from(members.text("shuffle"));
  state.chunk_samples = members.whole("chunk_samples");
  state.window_samples = members.whole("window_samples");
  state.epoch_samples = members.whole("epoch_samples");
  for (const json& set : members.list("sets", kMostSets)) {
    state.sets.push_back(set_from_json(set, fmt::format("sets[{}]", state.sets.size())));
  }
  if (const auto origin = root.find("origin"); origin != root.end()) {
    state.origin = origin_from_json(*origin, state.sets.size());
  }
  state.batch_size = members.whole("batch_size");
  state.world_size = members.whole("world_size");
  state.last_batch = members.text("last_batch");
  state.pipeline = members.text("pipeline");
  state.on_error = members.text("on_error");
  state.bad_samples = members.whole("bad_samples");
  return state;
}

[[noreturn]] void refuse_kind(const std::string& what) {
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("state: not a Feedrace state: {}; give the text that a loader saved", what));
}

/// Format and version: a newer state's other members may mean anything.
void check_kind(const json& root) {
  if (!root.is_object()) refuse_kind(fmt::format("it is {}", shown(root)));
  const auto format = root.find("format");
  if (format == root.end()) refuse_kind("it has no member \"format\"");
  if (*format != kFormatName) refuse_kind(fmt::format("its format is {}", shown(*format)));
  const std::uint64_t version = Members(root, "").whole("version");
  if (version > kStateVersion) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("state version {} is newer than this Feedrace reads ({}); update feedrace",
                    version, kStateVersion));
  }
  if (version != kStateVersion) refuse_kind(fmt::format("its version is {}", version));
}

void check_sum(const json& root) {
  const std::string saved = Members(root, "").text("checksum");
  const std::string found = checksum_of(root);
  if (saved == found) return;
  refuse(fmt::format("checksum is {}, its members give {}", shown(saved), found));
}

State state_from(std::string_view text) {
  if (text.size() > kMostStateBytes) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("state: {} bytes are more than a state may have, {}; give the text that a "
                    "loader saved",
                    with_commas(text.size()), with_commas(kMostStateBytes)));
  }
  const json root = parse_shallow_json(text);
  if (root.is_discarded()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("state: cut short or no state: {} bytes that are no JSON; give the whole "
                    "text that a loader saved",
                    text.size()));
  }
  check_kind(root);
  State state = members_from_json(root);
  check_sum(root);
  return state;
}

}  // namespace

std::vector<StatePart> state_parts(const std::vector<std::pair<std::string, std::string>>& parts) {
  const std::size_t group = (parts.size() + kMostStateParts - 1) / kMostStateParts;
  std::vector<StatePart> out;
  for (std::size_t begin = 0; begin < parts.size(); begin += group) {
    const std::size_t end = std::min(begin + group, parts.size());
    std::string digests;
    for (std::size_t i = begin; i < end; ++i) digests += parts[i].second + '\n';
    const std::string digest = group == 1 ? parts[begin].second : hash_text(digests);
    out.push_back({parts[begin].first, digest.substr(0, kDigestDigits), end - begin});
  }
  return out;
}

bool is_state_text(std::string_view head) {
  return head.starts_with('{') && head.substr(0, 64).find(kFormatName) != std::string_view::npos;
}

std::string to_json(const State& state) {
  nlohmann::ordered_json root;
  root["format"] = kFormatName;
  root["version"] = state.version;
  root["seed"] = state.seed;
  root["epoch"] = state.epoch;
  root["position"] = state.position;
  root["shuffle"] = to_string(state.shuffle);
  root["chunk_samples"] = state.chunk_samples;
  root["window_samples"] = state.window_samples;
  root["epoch_samples"] = state.epoch_samples;
  root["sets"] = json::array();
  for (const SetState& set : state.sets) root["sets"].push_back(set_to_json(set));
  if (state.origin != State::Origin{}) {
    root["origin"] = {{"epoch", state.origin.epoch},
                      {"position", state.origin.position},
                      {"set_positions", state.origin.set_positions}};
  }
  root["batch_size"] = state.batch_size;
  root["world_size"] = state.world_size;
  root["last_batch"] = text_to_json(state.last_batch);
  root["pipeline"] = text_to_json(state.pipeline);
  root["on_error"] = text_to_json(state.on_error);
  root["bad_samples"] = state.bad_samples;
  root["checksum"] = checksum_of(json::parse(root.dump()));
  return root.dump();
}

Result<State> parse_state(std::string_view text) {
  try {
    return state_from(text);
  } catch (const Error& error) {
    return Failure{error.code(), error.what()};
  } catch (const std::exception& error) {
    return Failure{
        ErrorCode::kInvalidArgument,
        fmt::format("state: can't be read: {}; give it as it was saved", printable(error.what()))};
  }
}

}  // namespace feedrace::order
