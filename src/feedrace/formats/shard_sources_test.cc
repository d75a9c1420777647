// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/shard_sources.h"

#include <filesystem>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

using feedrace::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string error_of(const std::vector<std::string>& sources) {
  try {
    find_shards(sources);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Braces, CountWithTheZerosOfTheirBounds) {
  EXPECT_THAT(expand_braces("s-{08..11}.tar"),
              ElementsAre("s-08.tar", "s-09.tar", "s-10.tar", "s-11.tar"));
  EXPECT_THAT(expand_braces("{8..11}"), ElementsAre("8", "9", "10", "11"));
  EXPECT_THAT(expand_braces("{0..002}"), ElementsAre("000", "001", "002"));
  EXPECT_THAT(expand_braces("{2..0}"), ElementsAre("2", "1", "0"));
  EXPECT_THAT(expand_braces("{7..7}"), ElementsAre("7"));
}

TEST(Braces, CombineAndNest) {
  EXPECT_THAT(expand_braces("{a,b}/{0..1}.tar"),
              ElementsAre("a/0.tar", "a/1.tar", "b/0.tar", "b/1.tar"));
  EXPECT_THAT(expand_braces("x{a,b{1..2},}"), ElementsAre("xa", "xb1", "xb2", "x"));
}

TEST(Braces, StayWhereTheyAreNoPattern) {
  for (const char* text : {"plain", "{}", "{a}", "{1..}", "{a..b}", "a{b", "}{", "{-1..2}"}) {
    EXPECT_THAT(expand_braces(text), ElementsAre(text));
  }
  EXPECT_THAT(expand_braces("{a}{1..2}"), ElementsAre("{a}1", "{a}2"));
}

TEST(Braces, AreRefusedWhenTheyStandForTooMuch) {
  EXPECT_THROW(expand_braces("{0..9999999999}"), Error);
  EXPECT_THROW(expand_braces("{0..18446744073709551615}"), Error);
  EXPECT_THROW(expand_braces("{0..9999}{0..9999}"), Error);
}

TEST(FindShards, SortsByNameAndKeepsTheOrderOfSources) {
  const TempDir folder;
  for (const char* name : {"b/10.tar", "b/9.tar", "a/1.tar", "a/x.txt", "a/.hidden.tar"}) {
    folder.write(name, "");
  }
  const std::string b = folder / "b";
  const std::string a = folder / "a";
  EXPECT_THAT(find_shards({b, a + "/1.tar"}).paths,
              ElementsAre(b + "/10.tar", b + "/9.tar", a + "/1.tar"));
  EXPECT_THAT(find_shards({folder / "?/*.tar"}).paths,
              ElementsAre(a + "/1.tar", b + "/10.tar", b + "/9.tar"));
  EXPECT_THAT(find_shards({folder / "b/{10..9}.tar"}).paths,
              ElementsAre(b + "/10.tar", b + "/9.tar"));
}

TEST(FindShards, NamesThoseOfAPatternThatAreMissing) {
  const TempDir folder;
  folder.write("s-0.tar", "");
  const std::string message = error_of({folder / "s-{0..9}.tar"});
  EXPECT_THAT(message, HasSubstr("9 of 10 shards missing"));
  EXPECT_THAT(message, HasSubstr("s-1.tar"));
  EXPECT_THAT(error_of({folder / "*.tar.none"}), HasSubstr("no file matches"));
  EXPECT_THAT(error_of({folder / "gone.tar"}), HasSubstr("no such file"));
}

TEST(FindShards, TakesAnExistingFileWithSignsOfAPatternByItsName) {
  const TempDir folder;
  const std::string odd = folder.write("a[1]{b,c}.tar", "");
  EXPECT_THAT(find_shards({odd}).paths, ElementsAre(odd));
}

TEST(FindShards, SaysWhenFoldersBesideShardsAreNotRead) {
  const TempDir folder;
  folder.write("a.tar", "");
  folder.write("class/1.jpg", "");
  EXPECT_THAT(find_shards({folder.path().string()}).warnings,
              ElementsAre(HasSubstr("1 folder beside 1 shard left out")));
}

TEST(LookLikeShards, GoesByNamesAndKinds) {
  const TempDir folder;
  folder.write("shards/a.tar", "");
  folder.write("images/c/1.jpg", "");
  EXPECT_TRUE(look_like_shards({folder / "shards"}));
  EXPECT_FALSE(look_like_shards({folder / "images"}));
  EXPECT_TRUE(look_like_shards({"gone-{0..3}.tar"}));
  EXPECT_TRUE(look_like_shards({"gone.tar", "gone.tar.gz"}));
  EXPECT_FALSE(look_like_shards({"gone.tar", folder / "images"}));
  EXPECT_FALSE(look_like_shards({"list.csv"}));
}

}  // namespace
}  // namespace feedrace::formats
