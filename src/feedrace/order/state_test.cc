// SPDX-License-Identifier: Apache-2.0
#include "feedrace/order/state.h"

#include <cmath>
#include <limits>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace feedrace::order {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

State full_state() {
  State state;
  state.seed = std::numeric_limits<std::uint64_t>::max();
  state.epoch = 3;
  state.position = 1536;
  state.shuffle = Shuffle::kWindow;
  state.chunk_samples = 64;
  state.window_samples = 4096;
  state.epoch_samples = 2000;
  SetState a;
  a.name = "\xe9t\xe9";  // Latin-1: not UTF-8.
  a.sample_count = 1000;
  a.selected_count = 900;
  a.fingerprint = "0123456789abcdef";
  a.key_fingerprint = "fedcba9876543210";
  a.key_set_fingerprint = "00000000000000ff";
  a.subset = "share 0 to 0.9";
  a.repeat = 2;
  a.weight = 0.1 + 0.2;
  a.position = 77;
  a.parts = {{"shard-000.tar", "9f3a21c0"}, {"shard-001.tar", "00000001", 12}};
  SetState b;
  b.name = "quotes \" and \n lines";
  b.weight = std::nextafter(0.7, 1);
  state.sets = {a, b};
  state.origin = {2, 5, {10, 20}};
  state.batch_size = 256;
  state.world_size = 8;
  state.last_batch = "drop";
  state.pipeline = "imagenet-train";
  state.on_error = "raise";
  state.bad_samples = 4;
  return state;
}

std::string message_of(std::string_view text) {
  const Result<State> state = parse_state(text);
  if (state) return "no failure";
  EXPECT_EQ(state.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(state.error().message.find('\n'), std::string::npos);
  return state.error().message;
}

/// The full state's JSON with one thing changed in it.
template <typename Change>
std::string edited(const Change& change) {
  nlohmann::json root = nlohmann::json::parse(to_json(full_state()));
  change(root);
  return root.dump();
}

TEST(StateJson, GivesBackAllThatWasSaved) {
  const Result<State> state = parse_state(to_json(full_state()));
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(*state, full_state());
}

TEST(StateJson, IsOneLineThatBeginsWithItsFormat) {
  const std::string text = to_json(full_state());
  EXPECT_THAT(text,
              StartsWith(R"({"format":"feedrace state","version":1,"seed":18446744073709551615,)"
                         R"("epoch":3,"position":1536,"shuffle":"window",)"));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_THAT(text, HasSubstr(R"("name":{"hex":"e974e9"})"));
  EXPECT_THAT(text, HasSubstr(R"(["shard-000.tar","9f3a21c0"],["shard-001.tar","00000001",12])"));
}

TEST(StateJson, LeavesAnEmptyOriginOut) {
  State state = full_state();
  state.origin = {};
  const std::string text = to_json(state);
  EXPECT_THAT(text, Not(HasSubstr("origin")));
  const Result<State> back = parse_state(text);
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, state);
}

TEST(StateJson, KeepsDoublesExactly) {
  for (const double weight :
       {0.1, 1.0 / 3, 1e-300, 1.7976931348623157e308, 5e-324, 1.0, 123456.0}) {
    State state = full_state();
    state.sets[0].weight = weight;
    const Result<State> back = parse_state(to_json(state));
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(back->sets[0].weight, weight);
  }
}

TEST(StateJson, MayBeIndentedAndSortedByOtherTools) {
  const auto root = nlohmann::json::parse(to_json(full_state()));
  const Result<State> state = parse_state(root.dump(4) + "\n");
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(*state, full_state());
}

TEST(StateJson, CutAnywhereIsRefused) {
  const std::string text = to_json(full_state());
  for (std::size_t length = 0; length < text.size(); ++length) {
    ASSERT_THAT(message_of(text.substr(0, length)), HasSubstr("cut short or no state"));
  }
}

TEST(StateJson, AnyChangedDigitIsRefused) {
  State state = full_state();
  state.sets[0].weight = 0.25;  // The last of 17 digits may be rounded away.
  state.sets[1].weight = 0.75;
  const std::string text = to_json(state);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] < '1' || text[i] > '8') continue;
    std::string changed = text;
    ++changed[i];
    ASSERT_FALSE(parse_state(changed)) << changed;
  }
  EXPECT_THAT(message_of(edited([](auto& root) { root["seed"] = 8; })),
              AllOf(HasSubstr("checksum is"), HasSubstr("edited or damaged")));
}

TEST(StateJson, NamesAMemberThatIsMissing) {
  const auto root = nlohmann::json::parse(to_json(full_state()));
  for (const auto& [name, value] : root.items()) {
    if (name == "origin" || name == "format") continue;
    EXPECT_THAT(message_of(edited([&](auto& copy) { copy.erase(name); })),
                HasSubstr(name + " is missing"));
  }
  for (const auto& [name, value] : root["sets"][0].items()) {
    EXPECT_THAT(message_of(edited([&](auto& copy) { copy["sets"][1].erase(name); })),
                HasSubstr("sets[1]." + name + " is missing"));
  }
}

TEST(StateJson, NamesAMemberThatIsNoWholeNumber) {
  EXPECT_THAT(message_of(edited([](auto& root) { root["epoch"] = -1; })),
              HasSubstr("epoch is -1, no whole number"));
  EXPECT_THAT(message_of(edited([](auto& root) { root["position"] = 2.5; })),
              HasSubstr("position is 2.5, no whole number"));
  EXPECT_THAT(message_of(edited([](auto& root) { root["batch_size"] = "256"; })),
              HasSubstr("batch_size is \"256\", no whole number"));
  EXPECT_THAT(message_of(edited([](auto& root) { root["sets"][1]["repeat"] = nullptr; })),
              HasSubstr("sets[1].repeat is null, no whole number"));
  EXPECT_THAT(message_of(edited([](auto& root) { root["origin"]["set_positions"][1] = true; })),
              HasSubstr("origin.set_positions[1] is true, no whole number"));
  EXPECT_THAT(message_of(edited([](auto& root) { root["sets"][0]["parts"][1][2] = -3; })),
              HasSubstr("sets[0].parts[1][2] is -3, no whole number"));
}

TEST(StateJson, NamesAMemberOfAnotherKind) {
  EXPECT_THAT(message_of(edited([](auto& root) { root["shuffle"] = "total"; })),
              HasSubstr("shuffle is \"total\""));
  EXPECT_THAT(message_of(edited([](auto& root) { root["sets"] = 3; })),
              HasSubstr("sets is 3, no list"));
  EXPECT_THAT(message_of(edited([](auto& root) { root["sets"][0] = "a"; })),
              HasSubstr("sets[0] is \"a\", no object"));
  EXPECT_THAT(message_of(edited([](auto& root) { root["sets"][0]["weight"] = -0.5; })),
              HasSubstr("sets[0].weight is -0.5"));
  EXPECT_THAT(message_of(edited([](auto& root) { root["sets"][0]["name"] = {{"hex", "6"}}; })),
              HasSubstr("sets[0].name is {\"hex\":\"6\"}, no text"));
  EXPECT_THAT(message_of(edited([](auto& root) { root["sets"][0]["parts"][0] = "x"; })),
              HasSubstr("sets[0].parts[0] is \"x\""));
  EXPECT_THAT(message_of(edited([](auto& root) { root["pipeline"] = 1; })),
              HasSubstr("pipeline is 1, no text"));
}

TEST(StateJson, WantsAnOriginOfAsManySets) {
  EXPECT_THAT(message_of(edited([](auto& root) { root["origin"]["set_positions"] = {1}; })),
              HasSubstr("origin.set_positions has 1 entries for 2 sets"));
}

TEST(StateJson, RefusesMoreSetsThanAStateMayHave) {
  EXPECT_THAT(message_of(edited([](auto& root) { root["sets"] = std::vector<int>(4097, 0); })),
              HasSubstr("sets has 4097 entries, more than 4096"));
  EXPECT_THAT(
      message_of(edited([](auto& root) { root["sets"][0]["parts"] = std::vector<int>(4097, 0); })),
      HasSubstr("sets[0].parts has 4097 entries"));
  EXPECT_THAT(message_of(std::string(kMostStateBytes + 1, ' ')), HasSubstr("16,777,216"));
}

TEST(StateJson, OfTheMostSetsWithAllPartsIsReadAgain) {
  State state = full_state();
  state.origin = {};
  state.sets.resize(4096);
  for (std::size_t i = 0; i < state.sets.size(); ++i) {
    state.sets[i].name = fmt::format("set {}", i);
    state.sets[i].parts.assign(kMostStateParts, {"imagenet-train-000000.tar", "0badc0de", 32});
  }
  const Result<State> back = parse_state(to_json(state));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(*back, state);
}

TEST(StateJson, ANewerVersionIsReportedBeforeAnythingElse) {
  EXPECT_EQ(message_of(R"({"format":"feedrace state","version":2,"epoch":"?","checksum":"x"})"),
            "state version 2 is newer than this Feedrace reads (1); update feedrace");
}

TEST(StateJson, OtherJsonIsNoState) {
  for (const char* text :
       {"{}", "[1,2]", "7", "null", "\"text\"", R"({"format":"feedrace index","version":1})",
        R"({"format":"feedrace state","version":0})", R"({"format":7})"}) {
    EXPECT_THAT(message_of(text), HasSubstr("not a Feedrace state")) << text;
  }
  EXPECT_THAT(message_of(R"({"format":"feedrace state","version":1.5})"),
              HasSubstr("version is 1.5, no whole number"));
}

TEST(StateJson, DeepNestingIsRefusedWithoutRecursion) {
  EXPECT_THAT(message_of(std::string(1'000'000, '[')), HasSubstr("no state"));
  std::string deep = to_json(full_state());
  deep.insert(1, R"("x":)" + std::string(100'000, '[') + std::string(100'000, ']') + ",");
  EXPECT_THAT(message_of(deep), HasSubstr("no state"));
}

TEST(StateJson, IgnoresUnknownMembersButForTheChecksum) {
  const std::string text = edited([](auto& root) { root["color"] = "blue"; });
  EXPECT_THAT(message_of(text), HasSubstr("checksum"));
  const std::string message = message_of(text);
  const std::string before = "its members give ";
  auto root = nlohmann::json::parse(text);
  root["checksum"] = message.substr(message.find(before) + before.size(), 16);
  const Result<State> state = parse_state(root.dump());
  ASSERT_TRUE(state) << state.error().message;
  EXPECT_EQ(*state, full_state());
}

std::vector<std::pair<std::string, std::string>> numbered_parts(std::size_t count) {
  std::vector<std::pair<std::string, std::string>> parts;
  for (std::size_t i = 0; i < count; ++i) {
    parts.emplace_back(fmt::format("shard-{:03}.tar", i), fmt::format("{:08x}deadbeef", i));
  }
  return parts;
}

TEST(StateParts, StandForThemselvesUpToTheLimit) {
  EXPECT_TRUE(state_parts({}).empty());
  const std::vector<StatePart> parts = state_parts(numbered_parts(32));
  ASSERT_EQ(parts.size(), 32U);
  EXPECT_EQ(parts[31], (StatePart{"shard-031.tar", "0000001f", 1}));
}

TEST(StateParts, AreGroupsOfNeighboursAboveIt) {
  for (const std::size_t count : {33, 64, 65, 1000, 10'000}) {
    const std::vector<StatePart> parts = state_parts(numbered_parts(count));
    EXPECT_LE(parts.size(), kMostStateParts);
    EXPECT_GT(parts.size(), kMostStateParts / 2);
    std::uint64_t begin = 0;
    for (const StatePart& part : parts) {
      EXPECT_EQ(part.name, fmt::format("shard-{:03}.tar", begin));
      EXPECT_EQ(part.digest.size(), 8U);
      EXPECT_LE(part.count, parts[0].count);
      begin += part.count;
    }
    EXPECT_EQ(begin, count);
  }
}

TEST(StateParts, ChangeTheDigestOfTheirGroupAlone) {
  auto all = numbered_parts(100);
  const std::vector<StatePart> before = state_parts(all);
  all[50].second = "ffffffffffffffff";
  const std::vector<StatePart> after = state_parts(all);
  std::size_t changed = 0;
  for (std::size_t i = 0; i < before.size(); ++i) changed += before[i] != after[i] ? 1 : 0;
  EXPECT_EQ(changed, 1U);
  EXPECT_NE(before[50 / before[0].count].digest, after[50 / after[0].count].digest);
}

}  // namespace
}  // namespace feedrace::order
