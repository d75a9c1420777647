// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/class_list.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ClassList : public ::testing::Test {
 protected:
  ClassList() { dir_.write("manifest.json", "{\n \"format\": \"feedrace manifest\",\n"); }

  std::vector<std::string> names(const std::string& text) {
    dir_.write("classes.txt", text);
    return read();
  }
  std::vector<std::string> read() {
    return read_class_list({dir_ / "a.tar", dir_ / "b.tar"}, warnings_);
  }

  testing::TempDir dir_;
  std::vector<std::string> warnings_;
};

TEST_F(ClassList, IsOneClassALine) {
  EXPECT_THAT(names("cat\ntabby dog\n"), ElementsAre("cat", "tabby dog"));
  EXPECT_THAT(names("cat\ndog"), ElementsAre("cat", "dog"));
  EXPECT_THAT(names(""), IsEmpty());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ClassList, MayBeAbsent) {
  EXPECT_THAT(read(), IsEmpty());
  EXPECT_THAT(read_class_list({}, warnings_), IsEmpty());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ClassList, CountsInPackedFoldersOnly) {
  dir_.write("manifest.json", "{\"version\": 1}");
  EXPECT_THAT(names("cat\n"), IsEmpty());
  EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(ClassList, CountsForShardsOfOneFolderOnly) {
  names("cat\n");
  EXPECT_THAT(read_class_list({dir_ / "a.tar", dir_ / "sub/b.tar"}, warnings_), IsEmpty());
}

TEST_F(ClassList, ThatIsNoneIsToldWithItsLine) {
  EXPECT_THAT(names("cat\n\ndog\n"), IsEmpty());
  EXPECT_THAT(names("cat\ndog\ncat\n"), IsEmpty());
  EXPECT_THAT(names(std::string("cat\nd\0g\n", 8)), IsEmpty());
  EXPECT_THAT(warnings_,
              ElementsAre(HasSubstr("classes.txt: not a class list (line 2 is empty)"),
                          HasSubstr("(line 3 is there twice)"), HasSubstr("(line 2 is no text)")));
}

}  // namespace
}  // namespace feedrace::formats
