// SPDX-License-Identifier: Apache-2.0
#include "feedrace/core/json_text.h"

#include <string>

#include <gtest/gtest.h>

namespace feedrace {
namespace {

TEST(JsonText, CarriesAnyBytesThereAndBack) {
  for (const std::string& text :
       {std::string(), std::string("Z\xc3\xbcrich"), std::string("\xff"), std::string("a\0b", 3)}) {
    const nlohmann::json value = text_to_json(text);
    EXPECT_EQ(text_from_json(nlohmann::json::parse(value.dump())), text);
  }
  EXPECT_TRUE(text_to_json("a").is_string());
  EXPECT_EQ(text_to_json("\xff\x0a")["hex"], "ff0a");
}

TEST(JsonText, IsNothingForWhatIsNoText) {
  for (const char* value : {"5", "null", "[]", "{}", R"({"hex": 5})", R"({"hex": "f"})",
                            R"({"hex": "zz"})", R"({"hex": "+1"})"}) {
    EXPECT_FALSE(text_from_json(nlohmann::json::parse(value))) << value;
  }
}

TEST(JsonText, IsPutUnderANameThatSaysHow) {
  nlohmann::ordered_json object;
  put_text(object, "key", "plain");
  put_text(object, "path", "\xfe");
  EXPECT_EQ(object.dump(), R"({"key":"plain","path_hex":"fe"})");
}

TEST(JsonText, IsFoundUnderEitherName) {
  const nlohmann::json object = {{"key", "plain"}, {"path_hex", "feFF"}, {"x", 5}, {"y_hex", "f"}};
  EXPECT_EQ(text_at(object, "key"), "plain");
  EXPECT_EQ(text_at(object, "path"), "\xfe\xff");
  for (const char* name : {"x", "y", "z", "path_hex_"}) EXPECT_FALSE(text_at(object, name)) << name;
}

TEST(ParseShallowJson, RefusesWhatIsDeepOrNoJson) {
  EXPECT_EQ(parse_shallow_json(R"({"a": [1, "[[["]})")["a"][0], 1);
  EXPECT_TRUE(parse_shallow_json(std::string(1'000'000, '[')).is_discarded());
  EXPECT_TRUE(parse_shallow_json(std::string(65, '[') + std::string(65, ']')).is_discarded());
  EXPECT_FALSE(parse_shallow_json(std::string(64, '[') + std::string(64, ']')).is_discarded());
  EXPECT_TRUE(parse_shallow_json("{\"a\"").is_discarded());
}

}  // namespace
}  // namespace feedrace
