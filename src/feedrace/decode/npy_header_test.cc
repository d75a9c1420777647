// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/npy_header.h"

#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace::decode {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Result<NpyHeader> read(const std::string& bytes) {
  return read_npy_header(std::as_bytes(std::span(bytes)));
}

/// Magic, version, length and dictionary as given.
std::string header_of(std::string_view dictionary, int major = 1) {
  std::string header = "\x93NUMPY";
  header += static_cast<char>(major);
  header += '\0';
  const std::size_t length = dictionary.size();
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) header += static_cast<char>(length >> 8 * i);
  return header + std::string(dictionary);
}

std::string refusal(const std::string& bytes) {
  const auto header = read(bytes);
  if (header) return "read";
  EXPECT_EQ(header.error().code, ErrorCode::kCorruptData);
  EXPECT_THAT(header.error().message, Not(HasSubstr("\n")));
  return header.error().message;
}

TEST(NpyHeader, IsReadInAllVersions) {
  constexpr std::string_view kText =
      "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 224), }";
  for (const int major : {1, 2, 3}) {
    const std::string bytes = header_of(std::string(kText) + "     \n", major);
    const auto header = read(bytes + "numbers");
    ASSERT_TRUE(header) << header.error().message;
    EXPECT_EQ(header->dtype, DType::kFloat32);
    EXPECT_THAT(header->shape, ElementsAre(3, 224));
    EXPECT_EQ(header->values_at_bytes, bytes.size());
  }
}

TEST(NpyHeader, HasEveryTypeThatTensorsHave) {
  const auto type_of = [](const char* descr) {
    const auto header = read(
        header_of(fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ()}}", descr)));
    EXPECT_TRUE(header) << descr;
    EXPECT_THAT(header->shape, IsEmpty());
    return header->dtype;
  };
  EXPECT_EQ(type_of("|u1"), DType::kUint8);
  EXPECT_EQ(type_of("<u1"), DType::kUint8);
  EXPECT_EQ(type_of("<f2"), DType::kFloat16);
  EXPECT_EQ(type_of("<f4"), DType::kFloat32);
  EXPECT_EQ(type_of("<i8"), DType::kInt64);
}

TEST(NpyHeader, MayBeSpelledInOtherWays) {
  for (const char* text : {
           R"({"shape":(5,),"fortran_order":False,"descr":"<i8"})",
           "{'descr': '<i8', 'fortran_order': False, 'shape': (5L,)}\n",
           "{ 'fortran_order' : True , 'descr' : '<i8' , 'shape' : ( 5 , ) , }  \n",
       }) {
    const auto header = read(header_of(text));
    ASSERT_TRUE(header) << text << ": " << header.error().message;
    EXPECT_THAT(header->shape, ElementsAre(5)) << text;
  }
}

TEST(NpyHeader, OfArraysThatAreNotDeliveredSaysWhy) {
  const auto of = [](std::string_view descr, std::string_view order = "False") {
    return refusal(header_of(
        fmt::format("{{'descr': {}, 'fortran_order': {}, 'shape': (2, 3), }}", descr, order)));
  };
  EXPECT_THAT(of("'>f4'"), HasSubstr("big endian"));
  EXPECT_THAT(of("'|O'"), HasSubstr("Python objects"));
  EXPECT_THAT(of("'<f8'"), HasSubstr("\"<f8\" are not delivered"));
  EXPECT_THAT(of("'|b1'"), HasSubstr("astype"));
  EXPECT_THAT(of("[('a', '<f4')]"), HasSubstr("records"));
  EXPECT_THAT(of("'<f4'", "True"), HasSubstr("Fortran order"));
}

TEST(NpyHeader, ThatIsCutIsRefusedAtEveryByte) {
  const std::string whole =
      header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }   \n");
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(refusal(whole.substr(0, size)), HasSubstr("numpy.save")) << size;
  }
  EXPECT_TRUE(read(whole));
}

TEST(NpyHeader, ThatIsHostileIsRefused) {
  for (const char* text : {
           "",
           "{",
           "}",
           "{}",
           "{'descr': '<f4'}",
           "{'descr': '<f4', 'fortran_order': False}",
           "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
           "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3,,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3 4)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} x",
           "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)",
           "{'descr': '<f4, 'fortran_order': False, 'shape': (3,)}",
           "{'descr': '<f4' 'fortran_order': False, 'shape': (3,)}",
       }) {
    EXPECT_THAT(refusal(header_of(text)), HasSubstr("numpy.save")) << text;
  }
  std::string extents;
  for (int i = 0; i < 65; ++i) extents += "1, ";
  EXPECT_THAT(
      refusal(header_of("{'descr': '<f4', 'fortran_order': False, 'shape': (" + extents + ")}")),
      HasSubstr("can't be read"));
}

TEST(NpyHeader, HasALengthThatIsBounded) {
  EXPECT_THAT(refusal("\x93NUMPY" + std::string("\x02\x00\xff\xff\xff\xff{", 7)),
              HasSubstr("4294967295 bytes, and at most 10000"));
  EXPECT_THAT(refusal("\x93NUMPY" + std::string("\x04\x00\x01\x00 ", 5)), HasSubstr("4.0"));
  EXPECT_THAT(refusal("PK\x03\x04"), HasSubstr("no .npy array"));
}

}  // namespace
}  // namespace feedrace::decode
