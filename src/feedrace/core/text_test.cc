// SPDX-License-Identifier: Apache-2.0
#include "feedrace/core/text.h"

#include <cerrno>
#include <cstdint>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

namespace feedrace {
namespace {

using namespace std::string_view_literals;

TEST(HexOf, GivesTwoDigitsAByte) { EXPECT_EQ(hex_of("\x01\xff"), "01ff"); }

TEST(Printable, LeavesOrdinaryNamesAlone) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("train/n01440764 tench.JPEG"), "train/n01440764 tench.JPEG");
  EXPECT_EQ(printable("Zürich 東京 \U0001F600"), "Zürich 東京 \U0001F600");
}

TEST(Printable, EscapesWhatWouldBreakALine) {
  EXPECT_EQ(printable("a\nb\tc\rd\x1b[31m\x7f"), "a\\x0ab\\x09c\\x0dd\\x1b[31m\\x7f");
  EXPECT_EQ(printable("a\0b"sv), "a\\x00b");
  EXPECT_EQ(printable("back\\slash"), "back\\\\slash");
}

TEST(Printable, EscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(printable("\xff\xfe"), "\\xff\\xfe");
  EXPECT_EQ(printable("caf\xe9.jpg"), "caf\\xe9.jpg");      // Latin-1.
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");           // An overlong slash.
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");  // A surrogate.
  EXPECT_EQ(printable("x\xe6\x9d"), "x\\xe6\\x9d");         // Cut off.
}

TEST(ShellWord, IsQuotedWhereAShellWouldTakeItOtherwise) {
  EXPECT_EQ(shell_word("/data/train-0.tar"), "/data/train-0.tar");
  EXPECT_EQ(shell_word("/data/{0..9}.tar"), "'/data/{0..9}.tar'");
  EXPECT_EQ(shell_word("my photos"), "'my photos'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(IsUtf8, FollowsTheTableOfRfc3629) {
  for (const std::string_view good :
       {"", "a", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(good)) << printable(good);
  }
  for (const std::string_view bad :
       {"\x80", "\xbf", "\xc0\x80", "\xc1\xbf", "\xc2", "\xc2\x41", "\xe0\x9f\xbf", "\xed\xa0\x80",
        "\xe2\x82", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xff",
        "\xf0\x90\x80"}) {
    EXPECT_FALSE(is_utf8(bad)) << printable(bad);
  }
}

TEST(IsUtf8, LooksAtEveryCharacter) {
  EXPECT_TRUE(is_utf8("Zürich"));
  EXPECT_FALSE(is_utf8("good so far \xff"));
}

TEST(HumanBytes, HasFourDigitsAtMost) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.0 kB");
  EXPECT_EQ(human_bytes(123'456'789), "123.5 MB");
  EXPECT_EQ(human_bytes(999'949), "999.9 kB");
  EXPECT_EQ(human_bytes(999'950), "1.0 MB");  // Never "1000.0 kB".
  EXPECT_EQ(human_bytes(150'000'000'000), "150.0 GB");
  EXPECT_EQ(human_bytes(UINT64_MAX), "18.4 EB");
}

TEST(WithCommas, GroupsByThousands) {
  EXPECT_EQ(with_commas(0), "0");
  EXPECT_EQ(with_commas(999), "999");
  EXPECT_EQ(with_commas(1000), "1,000");
  EXPECT_EQ(with_commas(1'281'167), "1,281,167");
  EXPECT_EQ(with_commas(UINT64_MAX), "18,446,744,073,709,551,615");
}

TEST(ErrnoText, NamesTheCallAndTheReason) {
  EXPECT_EQ(errno_text("open", EACCES), "open: Permission denied");
}

TEST(Printable, CutsWhatIsLongerThanAnyPath) {
  EXPECT_EQ(printable(std::string(4096, 'a')), std::string(4096, 'a'));
  EXPECT_EQ(printable(std::string(5'000'000, 'a')), std::string(4096, 'a') + "... (5000000 bytes)");
}

}  // namespace
}  // namespace feedrace
