// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/exif.h"

#include <string>

#include <gtest/gtest.h>

namespace feedrace::decode {
namespace {

std::uint8_t orientation(const std::string& block) {
  return exif_orientation(std::as_bytes(std::span(block)));
}

std::string big_endian(char value, char type = 3, char count = 1) {
  return std::string("MM\0*\0\0\0\x08\0\1\x01\x12\0", 13) + type + std::string("\0\0\0", 3) +
         count + std::string("\0", 1) + value + std::string("\0\0\0\0\0\0", 6);
}

std::string little_endian(char value) {
  return std::string("II*\0\x08\0\0\0\1\0\x12\x01\3\0\1\0\0\0", 18) + value +
         std::string("\0\0\0\0\0\0\0", 7);
}

TEST(Exif, OrientationIsReadInBothByteOrders) {
  for (char value = 1; value <= 8; ++value) {
    EXPECT_EQ(orientation(big_endian(value)), value);
    EXPECT_EQ(orientation(little_endian(value)), value);
  }
}

TEST(Exif, ThePrefixOfJpegMayStandInFront) {
  EXPECT_EQ(orientation(std::string("Exif\0\0", 6) + big_endian(6)), 6);
}

TEST(Exif, ValuesOutsideOneToEightCountAsUpright) {
  for (const char value : {'\0', '\x09', '\x7f', '\xff'}) {
    EXPECT_EQ(orientation(big_endian(value)), 1);
    EXPECT_EQ(orientation(little_endian(value)), 1);
  }
}

TEST(Exif, OtherTypesAndCountsCountAsUpright) {
  EXPECT_EQ(orientation(big_endian(6, 4)), 1);
  EXPECT_EQ(orientation(big_endian(6, 3, 2)), 1);
}

TEST(Exif, EveryTruncationCountsAsUprightOrKeepsTheTag) {
  const std::string whole = big_endian(6);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const std::uint8_t found = orientation(whole.substr(0, size));
    EXPECT_EQ(found, size < 8 + 2 + 12 ? 1 : 6) << size;
  }
}

TEST(Exif, DirectoriesOutsideTheBlockCountAsUpright) {
  for (const char* offset : {"\xff\xff\xff\xff", "\x7f\xff\xff\xff", "\0\0\0\x1a", "\0\0\0\x19"}) {
    std::string block = big_endian(6);
    block.replace(4, 4, offset, 4);
    EXPECT_EQ(orientation(block), 1);
  }
}

TEST(Exif, ADirectoryInsideTheHeaderCountsAsUpright) {
  std::string block = big_endian(6);
  block.replace(4, 4, std::string("\0\0\0\0", 4));
  EXPECT_EQ(orientation(block), 1);
}

TEST(Exif, EntryCountsAboveTheBlockAreBounded) {
  std::string block = big_endian(6);
  block[8] = '\xff';
  block[9] = '\xff';
  EXPECT_EQ(orientation(block), 6);  // The first entry is whole all the same.
  block[11] = '\x13';                // Another tag: the search runs into the end.
  EXPECT_EQ(orientation(block), 1);
}

}  // namespace
}  // namespace feedrace::decode
