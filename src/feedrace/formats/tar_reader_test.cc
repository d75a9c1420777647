// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/tar_reader.h"

#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/formats/test_tar.h"

namespace feedrace::formats {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::pax_record;
using testing::TarText;
using testing::TextSource;

struct Listing {
  std::vector<std::string> members;  ///< "name kind size".
  std::string error;
  bool end_mark_missing = false;
  std::uint64_t trailing_data_offset = 0;
};

Listing list(const ByteSource& source) {
  TarReader reader(source, "x.tar");
  Listing listing;
  TarMember member;
  while (true) {
    const Result<bool> found = reader.next(member);
    if (!found) listing.error = found.error().message;
    if (!found || !*found) break;
    listing.members.push_back(
        fmt::format("{} {} {}", member.name, static_cast<int>(member.kind), member.size_bytes));
  }
  listing.end_mark_missing = reader.end_mark_missing();
  listing.trailing_data_offset = reader.trailing_data_offset();
  return listing;
}

Listing list(const TarText& tar) { return list(TextSource(tar.text())); }

TEST(TarNumber, ReadsOctalWithBlanksAndNuls) {
  EXPECT_EQ(parse_tar_number(std::string_view("00000000012\0", 12)), 10u);
  EXPECT_EQ(parse_tar_number("         12 "), 10u);
  EXPECT_EQ(parse_tar_number("777777777777"), (std::uint64_t{1} << 36) - 1);
  EXPECT_EQ(parse_tar_number(std::string(12, '\0')), 0u);
  EXPECT_EQ(parse_tar_number("            "), 0u);
}

TEST(TarNumber, ReadsBase256UpTo63Bits) {
  EXPECT_EQ(parse_tar_number(std::string_view("\x80\0\0\0\0\0\0\x02\0\0\0\x05", 12)),
            (std::uint64_t{2} << 32) + 5);
  EXPECT_EQ(parse_tar_number(std::string_view("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12)),
            ~std::uint64_t{0} >> 1);
  EXPECT_EQ(parse_tar_number(std::string_view("\x80\0\0\0\x80\0\0\0\0\0\0\0", 12)), std::nullopt);
}

TEST(TarNumber, RefusesWhatIsNoSize) {
  EXPECT_EQ(parse_tar_number("-1          "), std::nullopt);
  EXPECT_EQ(parse_tar_number("00000000019 "), std::nullopt);
  EXPECT_EQ(parse_tar_number("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), std::nullopt);
  EXPECT_EQ(parse_tar_number(""), std::nullopt);
}

TEST(PaxRecords, KeepTheLastPathAndSize) {
  PaxRecords records;
  ASSERT_TRUE(records.parse(pax_record("path", "a") + pax_record("mtime", "1.5") +
                            pax_record("path", "b=c\nd") + pax_record("size", "12345678901")));
  EXPECT_EQ(records.path, "b=c\nd");
  EXPECT_EQ(records.size, 12345678901u);
  EXPECT_FALSE(records.sparse);
}

TEST(PaxRecords, RefuseLengthsThatDoNotFit) {
  for (const char* text :
       {"8 path=x\n", "999 path=x\n", "0 path=x\n", "-9 path=x\n", "path=x\n", "9", "10 path=xy",
        "18446744073709551615 path=x\n", "8 path x\n", "3 \n"}) {
    PaxRecords records;
    EXPECT_FALSE(records.parse(text)) << text;
  }
}

TEST(TarReader, GivesOffsetsOfTheDataItself) {
  const TextSource source(TarText().add("a.txt", "hello").add("b.txt", "").end().text());
  TarReader reader(source, "x.tar");
  TarMember member;
  ASSERT_TRUE(*reader.next(member));
  EXPECT_EQ(member.header_offset_bytes, 0u);
  EXPECT_EQ(member.data_offset_bytes, 512u);
  EXPECT_EQ(*reader.content(member), "hello");
  ASSERT_TRUE(*reader.next(member));
  EXPECT_EQ(member.header_offset_bytes, 1024u);
  EXPECT_EQ(*reader.content(member), "");
  EXPECT_FALSE(*reader.next(member));
}

TEST(TarReader, PrefersPaxThenGnuThenTheHeadersOwnName) {
  const TarText tar = TarText()
                          .add("l", std::string("gnu.txt\0", 8), {.type = 'L', .magic = "ustar  "})
                          .add("x", pax_record("path", "pax.txt"), {.type = 'x'})
                          .add("short.txt", "1")
                          .add("l", std::string("gnu2.txt\0", 9), {.type = 'L', .magic = "ustar  "})
                          .add("short.txt", "1")
                          .add("short.txt", "1", {.prefix = "folder"})
                          .add("gnu3.txt", "1", {.magic = "ustar  ", .prefix = "no prefix here"})
                          .end();
  EXPECT_THAT(list(tar).members,
              ElementsAre("pax.txt 0 1", "gnu2.txt 0 1", "folder/short.txt 0 1", "gnu3.txt 0 1"));
}

TEST(TarReader, TakesGlobalPaxRecordsAsDefaults) {
  const TarText tar = TarText()
                          .add("g", pax_record("comment", "c0ffee"), {.type = 'g'})
                          .add("a", "1")
                          .add("x", pax_record("path", "own"), {.type = 'x'})
                          .add("b", "1")
                          .end();
  EXPECT_THAT(list(tar).members, ElementsAre("a 0 1", "own 0 1"));
}

TEST(TarReader, TellsKindsApartAndGivesLinksNoData) {
  const TarText tar = TarText()
                          .add("f", "1", {.type = '7'})
                          .add("h", "", {.type = '1', .size_field = "00000000777 "})
                          .add("s", "", {.type = '2'})
                          .add("d/", "", {.type = '5'})
                          .add("old/", "", {.type = '\0', .magic = ""})
                          .add("c", "", {.type = '3'})
                          .add("?", "12", {.type = 'Q'})
                          .end();
  EXPECT_THAT(list(tar).members,
              ElementsAre("f 0 1", "h 1 0", "s 1 0", "d/ 2 0", "old/ 2 0", "c 3 0", "? 4 2"));
}

TEST(TarReader, RefusesAMemberThatReachesBeyondTheEnd) {
  const std::string whole = TarText().add("a", std::string(600, 'x')).text();
  EXPECT_THAT(list(TextSource(whole.substr(0, 1000))).error,
              HasSubstr("x.tar: truncated: a at offset 0 claims a size of 600 bytes"));
  EXPECT_THAT(list(TextSource(whole.substr(0, 1200))).error, HasSubstr("truncated"));
  EXPECT_EQ(list(TextSource(whole)).error, "");
  const TarText huge = TarText().add(
      "h", "", {.size_field = std::string("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12)});
  EXPECT_THAT(list(huge).error, HasSubstr("claims a size of 9223372036854775807 bytes"));
}

TEST(TarReader, RefusesAPaxSizeThatOverflows) {
  const TarText tar = TarText()
                          .add("x", pax_record("size", "18446744073709551615"), {.type = 'x'})
                          .add("a", "1")
                          .end();
  EXPECT_THAT(list(tar).error, HasSubstr("claims a size of 18446744073709551615"));
}

TEST(TarReader, SaysWhereTheHeaderIsWrong) {
  const TarText tar = TarText().add("a", "1").add("b", "1", {.break_checksum = true}).end();
  const Listing listing = list(tar);
  EXPECT_THAT(listing.members, ElementsAre("a 0 1"));
  EXPECT_THAT(listing.error, HasSubstr("x.tar: not a tar header at offset 1024"));
}

TEST(TarReader, TellsTheEndsApart) {
  const TarText whole = TarText().add("a", "1");
  EXPECT_TRUE(list(whole).end_mark_missing);
  const Listing marked = list(TarText(whole).end());
  EXPECT_FALSE(marked.end_mark_missing);
  EXPECT_EQ(marked.trailing_data_offset, 0u);
  const Listing twice = list(TarText(whole).end().add("b", "2").end());
  EXPECT_THAT(twice.members, ElementsAre("a 0 1"));
  EXPECT_EQ(twice.trailing_data_offset, 2048u);
  EXPECT_TRUE(list(TarText(whole).raw(std::string(100, '\0'))).end_mark_missing);
  EXPECT_THAT(list(TarText(whole).raw("junk")).error, HasSubstr("truncated"));
  EXPECT_THAT(list(TarText(whole).add("x", pax_record("path", "p"), {.type = 'x'}).end()).error,
              HasSubstr("without its member"));
}

TEST(TarReader, NamesTheCompression) {
  EXPECT_THAT(list(TextSource(std::string("\x1f\x8b\x08", 3) + std::string(600, 'x'))).error,
              HasSubstr("compressed with gzip"));
  EXPECT_THAT(list(TextSource("\x28\xb5\x2f\xfd...")).error, HasSubstr("compressed with zstd"));
  EXPECT_THAT(list(TextSource("")).error, HasSubstr("empty file (0 bytes)"));
  EXPECT_THAT(list(TextSource("<html>")).error, HasSubstr("not a tar: no tar header at offset 0"));
}

TEST(TarReader, RefusesSparseMembersOfBothKinds) {
  const TarText gnu = TarText().add("s", "1", {.type = 'S', .magic = "ustar  "}).end();
  EXPECT_THAT(list(gnu).error, HasSubstr("member s at offset 0 is sparse"));
  const TarText pax =
      TarText().add("x", pax_record("GNU.sparse.major", "1"), {.type = 'x'}).add("s", "1").end();
  EXPECT_THAT(list(pax).error, HasSubstr("is sparse"));
}

TEST(TarReader, NeverReadsLargePayloads) {
  TarText tar;
  constexpr std::size_t kPayload = std::size_t{1} << 20;
  for (int i = 0; i < 8; ++i) {
    tar.add(fmt::format("{}.jpg", i), std::string(kPayload, 'x'))
        .add(fmt::format("{}.cls", i), "7");
  }
  const TextSource source(tar.end().text());
  EXPECT_EQ(list(source).members.size(), 16u);
  EXPECT_LT(source.read_bytes, kPayload / 10);
  EXPECT_LE(source.read_count, 10u) << "a label and the next header lie in one page";
}

TEST(TarReader, ReadsManySmallMembersWithOneCall) {
  TarText tar;
  for (int i = 0; i < 10'000; ++i) tar.add(fmt::format("{}.cls", i), "7");
  const TextSource source(tar.end().text());
  EXPECT_EQ(list(source).members.size(), 10'000u);
  EXPECT_LT(source.read_count, 100u);
}

}  // namespace
}  // namespace feedrace::formats
