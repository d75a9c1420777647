// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/member_name.h"

#include <string>
#include <string_view>
#include <utility>

#include <gtest/gtest.h>

#include "feedrace/format.h"

namespace feedrace::formats {
namespace {

/// "key|field", or "-" for a member of no sample.
std::string split(std::string_view path) {
  std::string field;
  const auto key = split_member_name(path, field);
  return key ? std::string(*key) + "|" + field : "-";
}

TEST(MemberName, SplitsAtTheFirstDotOfTheBaseName) {
  EXPECT_EQ(split("a.jpg"), "a|jpg");
  EXPECT_EQ(split("d.1/a.seg.PNG"), "d.1/a|seg.png");
  EXPECT_EQ(split("./A.Jpg"), "./A|jpg");
  EXPECT_EQ(split("a."), "a|");
}

TEST(MemberName, PassesOverWhatBelongsToNoSample) {
  for (const char* path : {"README", "d.1/README", ".hidden", "d/._a.jpg", "__meta__/a.jpg",
                           "./__meta__/a.jpg", "__index__", "", "/", "d/"}) {
    EXPECT_EQ(split(path), "-") << path;
  }
  EXPECT_EQ(split("____/a.jpg"), "____/a|jpg") << "nothing between the underscores";
  EXPECT_EQ(split("d/__meta__/a.jpg"), "d/__meta__/a|jpg") << "only the first part counts";
}

TEST(CanonicalKey, IsWhatAFileAndItsMemberHaveInCommon) {
  const std::pair<std::string_view, std::string_view> cases[] = {
      {"c1/004.jpg", "c1/004"},
      {"./c1/004.tar.gz", "c1/004"},
      {"././004.jpg", "004"},
      {"c1/004", "c1/004"},
      {"./c1/004", "c1/004"},
      {"noext", "noext"},
      {".hidden", ".hidden"},
      {"./.hidden.jpg", ".hidden.jpg"},
      {"d.1/.hidden", "d.1/.hidden"},
      {"a.b/c", "a.b/c"},
      {"a.b/c.d", "a.b/c"},
      {"../x.jpg", "../x"},
      {"/abs/x.y.jpg", "/abs/x"},
      {"a.", "a"},
      {"d/", "d/"},
      {"", ""},
      {".", "."},
      {"\xc3\xa9.jpg", "\xc3\xa9"},
  };
  for (const auto& [key, canonical] : cases) {
    EXPECT_EQ(canonical_key(key), canonical) << key;
    EXPECT_EQ(canonical_key(canonical), canonical) << "it stays what it is";
  }
}

TEST(CanonicalKey, OfAMemberIsThatOfItsSample) {
  std::string field;
  for (const std::string_view path : {"a.jpg", "./d.1/a.seg.png", "d/a.", "x/y.b"}) {
    EXPECT_EQ(canonical_key(*split_member_name(path, field)), canonical_key(path)) << path;
  }
}

}  // namespace
}  // namespace feedrace::formats
