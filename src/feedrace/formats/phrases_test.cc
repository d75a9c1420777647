// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/phrases.h"

#include <gtest/gtest.h>

namespace feedrace::formats {
namespace {

TEST(Phrases, CountWithTheRightNumberOfTheNoun) {
  EXPECT_EQ(counted(0, "shard"), "0 shards");
  EXPECT_EQ(counted(1, "shard"), "1 shard");
  EXPECT_EQ(counted(1281167, "image"), "1,281,167 images");
}

TEST(Phrases, ListNoMoreThanAskedForAndOnlyWhatCanBePrinted) {
  EXPECT_EQ(listed({}), "");
  EXPECT_EQ(listed({"a", "b\n"}), "a, b\\x0a");
  EXPECT_EQ(listed({"a", "b", "c"}, 2), "a, b, ...");
}

}  // namespace
}  // namespace feedrace::formats
