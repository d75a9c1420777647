// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/member_name.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace feedrace::formats
