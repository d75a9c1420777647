// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/key_list.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/error.h"
#include "feedrace/formats/npy.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats {
namespace {

using feedrace::testing::TempDir;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// "invalid_argument: message" of what reading an index list throws; empty for nothing.
std::string index_error(const std::string& path) {
  try {
    read_index_list(path);
  } catch (const Error& error) {
    return fmt::format("{}: {}", to_string(error.code()), error.what());
  }
  return "";
}

template <typename T>
std::string npy(std::string_view type, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return npy_header(type, values.size()) +
         std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

TEST(KeyList, HasAKeyALineAsItStands) {
  const TempDir folder;
  const std::string path = folder.write("keys.txt",
                                        "\xef\xbb\xbf"
                                        "c1/004.jpg\r\n\n a b \n#c\r\n./d");
  EXPECT_THAT(read_key_list(path), ElementsAre("c1/004.jpg", " a b ", "#c", "./d"));
  EXPECT_THAT(read_key_list(folder.write("empty.txt", "\n \n")), IsEmpty());
}

TEST(KeyList, ThatIsNotThereIsAnError) {
  const TempDir folder;
  for (const char* name : {"gone.txt", "gone.npy"}) {
    EXPECT_THAT(index_error(folder / name), HasSubstr("not_found: " + folder / name));
  }
  try {
    read_key_list(folder / "gone.txt");
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
  }
}

TEST(IndexList, HasANumberALine) {
  const TempDir folder;
  EXPECT_THAT(read_index_list(folder.write("n.txt",
                                           "\xef\xbb\xbf"
                                           "3\r\n\n 18446744073709551615 \n0\n3")),
              ElementsAre(3, ~std::uint64_t{0}, 0, 3));
  EXPECT_THAT(read_index_list(folder.write("empty.txt", "")), IsEmpty());
}

TEST(IndexList, NamesTheLineThatIsNoNumber) {
  const TempDir folder;
  for (const char* bad : {"-1", "1.5", "x", "1 2", "+1", "18446744073709551616", "0x10"}) {
    const std::string path = folder.write("n.txt", fmt::format("1\n\n{}\n", bad));
    EXPECT_THAT(index_error(path),
                HasSubstr(fmt::format("invalid_argument: {}: line 3: '{}' is no sample number",
                                      path, bad)));
  }
}

TEST(IndexList, MayBeAnArrayOfIntegers) {
  const TempDir folder;
  EXPECT_THAT(
      read_index_list(folder.write("a.npy", npy<std::uint64_t>("<u8", {7, ~std::uint64_t{0}}))),
      ElementsAre(7, ~std::uint64_t{0}));
  EXPECT_THAT(read_index_list(folder.write("b.npy", npy<std::int64_t>("<i8", {5, 0}))),
              ElementsAre(5, 0));
  EXPECT_THAT(read_index_list(folder.write("c.npy", npy<std::uint32_t>("<u4", {0xffffffff}))),
              ElementsAre(0xffffffff));
  EXPECT_THAT(read_index_list(folder.write("d", npy<std::int32_t>("<i4", {1, 2, 1}))),
              ElementsAre(1, 2, 1))
      << "told by its first bytes";
  EXPECT_THAT(read_index_list(folder.write("e.npy", npy<std::int64_t>("<i8", {}))), IsEmpty());
}

TEST(IndexList, RefusesArraysOfAnythingElse) {
  const TempDir folder;
  EXPECT_THAT(index_error(folder.write("a.npy", npy<std::int64_t>("<i8", {5, -2}))),
              HasSubstr("a.npy: entry 1 is -2; sample numbers begin at 0"));
  EXPECT_THAT(index_error(folder.write("b.npy", npy<std::int32_t>("<i4", {-2147483648}))),
              HasSubstr("invalid_argument"));
  EXPECT_THAT(index_error(folder.write("c.npy", npy<double>("<f8", {1}))),
              HasSubstr("c.npy: holds values of type <f8; save sample numbers as int64"));
  EXPECT_THAT(index_error(folder.write("d.npy", npy<std::uint8_t>("|b1", {1}))),
              HasSubstr("of a mask: mask.nonzero()[0]"));
  EXPECT_THAT(index_error(folder.write("e.npy", "3\n")),
              HasSubstr("corrupt_data: " + folder / "e.npy" + ": not a .npy file"));
  const std::string whole = npy<std::int64_t>("<i8", {1, 2});
  EXPECT_THAT(index_error(folder.write("f.npy", whole.substr(0, whole.size() - 1))),
              HasSubstr("cut: 2 values of 8 bytes do not fit"));
  EXPECT_THAT(index_error(folder.write("g.npy", whole.substr(0, 50))), HasSubstr("cut"));
  std::string square = whole;
  square.replace(square.find("(2,)"), 4, "(2,1");
  EXPECT_THAT(index_error(folder.write("h.npy", square)),
              HasSubstr("not a one-dimensional array of <i8"));
  std::string record = whole;
  record.replace(record.find("'<i8'"), 5, "[('a'");
  EXPECT_THAT(index_error(folder.write("i.npy", record)),
              HasSubstr("not an array of plain numbers"));
}

}  // namespace
}  // namespace feedrace::formats
