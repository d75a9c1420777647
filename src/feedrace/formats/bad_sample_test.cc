// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/bad_sample.h"

#include <string>

#include <gtest/gtest.h>

namespace feedrace::formats {
namespace {

void expect_there_and_back(const BadSample& sample) {
  const std::string line = sample.to_line();
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto back = BadSample::from_line(line);
  ASSERT_TRUE(back) << line;
  EXPECT_EQ(back->set, sample.set);
  EXPECT_EQ(back->shard, sample.shard);
  EXPECT_EQ(back->key, sample.key);
  EXPECT_EQ(back->offset_bytes, sample.offset_bytes);
  EXPECT_EQ(back->size_bytes, sample.size_bytes);
  EXPECT_EQ(back->sample, sample.sample);
  EXPECT_EQ(back->epoch, sample.epoch);
  EXPECT_EQ(back->code, sample.code);
  EXPECT_EQ(back->reason, sample.reason);
}

TEST(BadSample, IsReadAsItWasWritten) {
  expect_there_and_back({{}, "/data/a.tar", "k", 512, 7, 3, {}, "corrupt_data", "cut"});
  expect_there_and_back({"one", "", "a/b.jpg", 0, {}, 0, 2, "flagged", "a warning"});
  expect_there_and_back({"s\xff", "/d/\xfe.tar", "line\nend\"\xff", ~0ULL, 0, {}, {}, "io", ""});
}

TEST(BadSample, HasTheMembersThatThePagesTell) {
  EXPECT_EQ((BadSample{{}, "a.tar", "k", 512, 7, 3, {}, "io", "cut"}.to_line()),
            "{\"code\":\"io\",\"key\":\"k\",\"offset\":512,\"reason\":\"cut\",\"sample\":3,"
            "\"shard\":\"a.tar\",\"size\":7}\n");
  EXPECT_EQ((BadSample{"one", "", "\xff", 0, {}, {}, 4, "flagged", "\xfe"}.to_line()),
            "{\"code\":\"flagged\",\"epoch\":4,\"key_hex\":\"ff\",\"offset\":0,\"reason\":"
            "\"\xef\xbf\xbd\",\"set\":\"one\",\"shard\":null}\n");
}

TEST(BadSample, NeedsAKeyAndNothingElse) {
  const auto least = BadSample::from_line(R"({"key": "k"})");
  ASSERT_TRUE(least);
  EXPECT_EQ(least->shard, "");
  EXPECT_FALSE(least->sample);
  for (const char* line : {"", "5", "[]", "{}", "\xff", R"({"key": 5})", R"({"key_hex": "f"})",
                           R"({"shard": "a.tar"})", R"({"key": "k")"}) {
    EXPECT_FALSE(BadSample::from_line(line)) << line;
  }
}

TEST(BadSample, PassesOverMembersOfAnotherType) {
  const auto sample = BadSample::from_line(
      R"({"key": "k", "shard": 5, "offset": -1, "size": "x", "sample": 1.5, "code": [], "set": {}})");
  ASSERT_TRUE(sample);
  EXPECT_EQ(sample->shard, "");
  EXPECT_EQ(sample->offset_bytes, 0);
  EXPECT_FALSE(sample->size_bytes);
  EXPECT_FALSE(sample->sample);
  EXPECT_EQ(sample->code, "");
  EXPECT_FALSE(sample->set);
}

}  // namespace
}  // namespace feedrace::formats
