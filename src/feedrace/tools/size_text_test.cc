// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/size_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace::tools {
namespace {

using ::testing::HasSubstr;

TEST(SizeText, IsBytesWithOrWithoutAUnit) {
  EXPECT_EQ(*parse_size("0"), 0U);
  EXPECT_EQ(*parse_size("4096"), 4096U);
  EXPECT_EQ(*parse_size("4096b"), 4096U);
  EXPECT_EQ(*parse_size("4k"), 4000U);
  EXPECT_EQ(*parse_size("64 MiB"), 64U << 20);
  EXPECT_EQ(*parse_size("1.5GB"), 1'500'000'000U);
  EXPECT_EQ(*parse_size("1.5gib"), 3U << 29);
  EXPECT_EQ(*parse_size("0.5"), 1U);  // Rounded away from zero.
  EXPECT_EQ(*parse_size("2TB"), 2'000'000'000'000U);
  EXPECT_EQ(*parse_size("9007199254740993"), 9'007'199'254'740'993U);  // 2^53 + 1.
}

TEST(SizeText, IsBinaryWhereThatIsUsual) {
  EXPECT_EQ(*parse_size("4k", SizePrefix::kBinary), 4096U);
  EXPECT_EQ(*parse_size("4kb", SizePrefix::kBinary), 4096U);
  EXPECT_EQ(*parse_size("4KiB", SizePrefix::kBinary), 4096U);
}

TEST(SizeText, OfWhatIsNoneSaysWhy) {
  for (const char* text : {"", " ", "GB", "1x", "1GBs", "1.5.5", "1 2", "nan", "inf", "0x10", "+1",
                           "1e400", "1e3", "1\n", "1kk"}) {
    const auto size = parse_size(text);
    ASSERT_FALSE(size) << text;
    EXPECT_THAT(size.error().message, HasSubstr("is no size; give a size such as")) << text;
  }
  EXPECT_THAT(parse_size("-5").error().message, HasSubstr("-5 is negative"));
  EXPECT_THAT(parse_size("99999999999999999999").error().message, HasSubstr("more than any"));
  EXPECT_THAT(parse_size("10EB").error().message, HasSubstr("more than any machine has"));
}

}  // namespace
}  // namespace feedrace::tools
