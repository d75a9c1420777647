// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/packed_set.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kManifest =
    R"({
 "format": "feedrace manifest",
 "shards": [{"name": "a.tar"}, {"name": {"hex": "ff2e746172"}}, {"name": "c.tar"}]
})";

class PackedSet : public ::testing::Test {
 protected:
  /// Where these shards of the folder are there.
  std::vector<std::string> notes(const std::vector<std::string>& names) {
    std::vector<std::string> shards;
    for (const std::string& name : names) shards.push_back(dir_ / name);
    std::vector<std::string> notes;
    note_incomplete_sets({dir_.path()}, shards, notes);
    return notes;
  }

  testing::TempDir dir_;
};

TEST_F(PackedSet, OfOtherOriginNothingIsSaid) {
  EXPECT_FALSE(was_packed(dir_.path()));
  EXPECT_THAT(notes({}), IsEmpty());
  dir_.write("manifest.json", R"({"shards": [{"name": "a.tar"}]})");
  EXPECT_FALSE(was_packed(dir_.path()));
  EXPECT_THAT(notes({}), IsEmpty());
}

TEST_F(PackedSet, ShardsThatTheManifestNamesAreMissed) {
  dir_.write("manifest.json", kManifest);
  EXPECT_TRUE(was_packed(dir_.path()));
  EXPECT_THAT(notes({"a.tar", "\xff.tar", "c.tar", "other.tar"}), IsEmpty());
  EXPECT_THAT(notes({"a.tar", "\xff.tar"}),
              ElementsAre(AllOf(HasSubstr("1 of 3 shards"), HasSubstr("is missing"),
                                HasSubstr(": c.tar; copy them again"))));
  EXPECT_THAT(notes({"a.tar"}),
              ElementsAre(AllOf(HasSubstr("2 of 3 shards"), HasSubstr(R"(are missing)"),
                                HasSubstr(R"(\xff.tar, c.tar)"))));
}

TEST_F(PackedSet, OfAManifestThatCanNotBeReadVerifySpeaks) {
  dir_.write("manifest.json", R"({"format": "feedrace manifest", "shards": [{"name": 3}]})");
  EXPECT_THAT(notes({}), IsEmpty());
  dir_.write("manifest.json", R"({"format": "feedrace manifest", "shards": )");
  EXPECT_THAT(notes({}), IsEmpty());
}

TEST_F(PackedSet, ARunThatDidNotEndIsNoted) {
  dir_.write(".feedrace-pack.part-1-of-2.journal", "");
  EXPECT_THAT(notes({"a.tar"}), ElementsAre(HasSubstr("not packed to its end")));
}

TEST_F(PackedSet, OfShardsThatWereNamedTheRestWasNotAskedFor) {
  dir_.write("manifest.json", kManifest);
  std::vector<std::string> notes;
  note_incomplete_sets({dir_ / "a.tar"}, {dir_ / "a.tar"}, notes);
  EXPECT_THAT(notes, IsEmpty());
}

}  // namespace
}  // namespace feedrace::formats
