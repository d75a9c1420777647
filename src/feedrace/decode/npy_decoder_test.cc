// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/npy_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/decode/image_decoder.h"
#include "feedrace/decode/test_pictures.h"

namespace feedrace::decode {
namespace {

using testing::Bytes;
using testing::decode_region;
using ::testing::HasSubstr;
using testing::make_npy;
using testing::make_pixels;
using ::testing::Not;
using testing::squeeze_lz4;
using testing::squeeze_zstd;

Bytes npy(const char* descr, const char* shape, std::size_t value_bytes) {
  return testing::bytes_of(feedrace::testing::npy(descr, shape, std::string(value_bytes, 'x')));
}

/// Why the whole of it can't be decoded.
std::string refusal(const Bytes& encoded, const DecodeLimits& limits = {}) {
  NpyDecoder decoder;
  const auto info = decoder.probe(encoded, limits);
  Failure failure;
  if (!info) {
    failure = info.error();
  } else {
    const auto pixels = decode_region(decoder, encoded, info->whole(), 1U << 30, limits);
    if (pixels) return "pixels";
    failure = pixels.error();
  }
  EXPECT_THAT(failure.message, Not(HasSubstr("\n")));
  EXPECT_NE(failure.code, ErrorCode::kInvalidArgument);
  return failure.message;
}

TEST(NpyDecoder, GivesTheStoredPixels) {
  const testing::Pixels pixels = make_pixels(37, 23);
  NpyDecoder decoder;
  for (const Bytes& encoded :
       {make_npy(pixels), squeeze_lz4(make_npy(pixels)), squeeze_zstd(make_npy(pixels))}) {
    const auto info = decoder.probe(encoded, {});
    ASSERT_TRUE(info) << info.error().message;
    EXPECT_STREQ(info->format, "npy");
    EXPECT_EQ(info->component_count, 3U);
    const auto read = decode_region(decoder, encoded, info->whole());
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, pixels.values);
  }
}

TEST(NpyDecoder, GreyIsRepeated) {
  const testing::Pixels grey = make_pixels(19, 11, 1);
  NpyDecoder decoder;
  for (const Bytes& encoded : {make_npy(grey), squeeze_lz4(make_npy(grey))}) {
    EXPECT_EQ(decoder.probe(encoded, {})->component_count, 1U);
    const Region region{4, 3, 10, 7};
    const auto read = decode_region(decoder, encoded, region);
    ASSERT_TRUE(read) << read.error().message;
    for (std::size_t i = 0; i < read->size(); ++i) {
      const std::size_t y = i / 30 + 3;
      const std::size_t x = i / 3 % 10 + 4;
      ASSERT_EQ((*read)[i], grey.values[y * 19 + x]) << i;
    }
    ASSERT_TRUE(decoder.begin(encoded, region, {}));
    EXPECT_EQ(decoder.rows_in_place().rgb, nullptr);
  }
}

TEST(NpyDecoder, PlainRowsAreNotCopied) {
  const Bytes encoded = make_npy(make_pixels(20, 10));
  NpyDecoder decoder;
  ASSERT_TRUE(decoder.begin(encoded, {2, 3, 5, 6}, {}));
  const PixelRows rows = decoder.rows_in_place();
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(encoded.data());
  EXPECT_EQ(rows.rgb, bytes + encoded.size() - 600 + 3 * 60 + 2 * 3);
  EXPECT_EQ(rows.row_bytes, 60U);
  EXPECT_EQ(decoder.scratch_bytes(), 0U);
}

TEST(NpyDecoder, AFrameIsUnpackedAsFarAsTheRegion) {
  const testing::Pixels pixels = make_pixels(400, 400);
  NpyDecoder decoder;
  for (Bytes encoded : {squeeze_lz4(make_npy(pixels)), squeeze_zstd(make_npy(pixels))}) {
    encoded.resize(encoded.size() - encoded.size() / 4);  // Damage that the top does not reach.
    const Region top{10, 0, 100, 50};
    const auto read = decode_region(decoder, encoded, top);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, testing::cut(pixels.values, 400, top));
    EXPECT_THAT(refusal(encoded), HasSubstr("truncated"));
  }
}

TEST(NpyDecoder, RefusesArraysThatAreNoPictures) {
  EXPECT_THAT(refusal(npy("<f4", "2, 4, 3", 96)),
              HasSubstr(".npy array of float32 [2, 4, 3]: a decoded picture is uint8 [H, W, 3] or "
                        "[H, W]; pack it so, or take recipe raw"));
  EXPECT_THAT(refusal(npy("|u1", "3, 2, 4", 24)), HasSubstr("uint8 [3, 2, 4]"));
  EXPECT_THAT(refusal(npy("|u1", "8,", 8)), HasSubstr("uint8 [8]"));
  EXPECT_THAT(refusal(npy("|u1", "1, 2, 2, 3", 12)), HasSubstr("uint8 [1, 2, 2, 3]"));
  EXPECT_THAT(refusal(npy("|u1", "4294967296, 1, 3", 3)), HasSubstr("uint8 [4294967296, 1, 3]"));
  EXPECT_THAT(refusal(npy("|u1", "0, 5, 3", 0)), HasSubstr("5 x 0 pixels, an empty picture"));
  EXPECT_THAT(refusal(npy("|b1", "2, 4, 3", 24)), HasSubstr("|b1"));
  Bytes fortran = npy("|u1", "2, 4, 3", 24);
  const std::string_view plain = "False";
  const auto at = std::search(fortran.begin(), fortran.end(), plain.begin(), plain.end(),
                              [](std::byte a, char b) { return std::to_integer<char>(a) == b; });
  std::memcpy(&*at, "True ", 5);
  EXPECT_THAT(refusal(fortran), HasSubstr("Fortran order"));
}

TEST(NpyDecoder, RefusesSizesThatLie) {
  for (const bool is_squeezed : {false, true}) {
    const auto pack = [&](const Bytes& array) { return is_squeezed ? squeeze_lz4(array) : array; };
    EXPECT_THAT(refusal(pack(npy("|u1", "2, 4, 3", 23))),
                HasSubstr("truncated .npy data: the header says 152 bytes in all, and there are "
                          "151"));
    EXPECT_NE(refusal(pack(npy("|u1", "2, 4, 3", 25))), "pixels");
    EXPECT_EQ(refusal(pack(npy("|u1", "2, 4, 3", 24))), "pixels");
    EXPECT_THAT(refusal(pack(npy("|u1", "4000000000, 4000000000, 3", 3))),
                HasSubstr("above the limit of 178,956,970; raise max_pixels"));
  }
  EXPECT_THAT(refusal(squeeze_zstd(npy("|u1", "2, 4, 3", 25))),
              HasSubstr("it holds more than the array that it begins with"));
  Bytes followed = squeeze_zstd(npy("|u1", "2, 4, 3", 24));
  followed.push_back(std::byte{0});
  EXPECT_THAT(refusal(followed), HasSubstr("other bytes lie behind the frame"));
}

TEST(NpyDecoder, RefusesFramesOfOtherThings) {
  for (const char* content : {"", "short", "a text that is longer than any prelude"}) {
    const Bytes bytes = testing::bytes_of(content);
    for (const Bytes& frame : {squeeze_lz4(bytes), squeeze_zstd(bytes)}) {
      EXPECT_THAT(refusal(frame), HasSubstr("compressed data that is no .npy array"));
    }
  }
  const Bytes magic = testing::bytes_of("\x04\x22\x4d\x18");
  EXPECT_NE(refusal(magic), "pixels");
}

TEST(NpyDecoder, EveryCutOfAFrameIsRefused) {
  const Bytes array = make_npy(make_pixels(12, 9));
  for (const Bytes& whole : {array, squeeze_lz4(array), squeeze_zstd(array)}) {
    for (std::size_t size = 8; size < whole.size(); ++size) {
      const Bytes cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));
      ASSERT_NE(refusal(cut), "pixels") << size;
    }
  }
}

TEST(NpyDecoder, AChecksumFindsWrongPixels) {
  const Bytes array = make_npy(make_pixels(64, 64));
  for (Bytes frame : {squeeze_lz4(array), squeeze_zstd(array)}) {
    frame[frame.size() - 1] ^= std::byte{1};  // Of the checksum itself.
    EXPECT_THAT(refusal(frame), HasSubstr("corrupt"));
  }
}

TEST(NpyDecoder, ABombIsRefusedByItsHeader) {
  // It says that it holds 1.2 GB.
  const Bytes bomb = squeeze_zstd(npy("|u1", "20000, 20000, 3", 0));
  EXPECT_THAT(refusal(bomb), HasSubstr("20000 x 20000 pixels are above the limit"));
  const Bytes large = squeeze_lz4(npy("|u1", "1000, 1000, 3", 3'000'000));
  EXPECT_THAT(refusal(large, {2'000'000, 1'000'000}), HasSubstr("above the limit of"));
  NpyDecoder decoder;
  ASSERT_TRUE(decoder.begin(large, {0, 0, 1000, 300}, {2'000'000, 1'000'000}));
  EXPECT_LT(decoder.scratch_bytes(), 1'500'000U);
}

TEST(NpyDecoder, AWindowBeyondTheLimitIsRefused) {
  // A frame whose header asks for 64 MiB of window.
  Bytes frame = testing::bytes_of(std::string_view("\x28\xb5\x2f\xfd\x00\x80\x01\x00\x00", 9));
  EXPECT_THAT(refusal(frame, {1'000'000, 1'000'000}), HasSubstr("corrupt Zstandard data"));
}

TEST(NpyDecoder, ImageDecoderChoosesItByContent) {
  const testing::Pixels pixels = make_pixels(30, 20);
  ImageDecoder decoder({}, true);
  for (const Bytes& encoded : {make_npy(pixels), squeeze_zstd(make_npy(pixels))}) {
    const auto info = decoder.open(encoded);
    ASSERT_TRUE(info) << info.error().message;
    EXPECT_EQ(decoder.rows_in_place().rgb, nullptr);  // Nothing was begun.
    ASSERT_TRUE(decoder.begin({5, 4, 10, 10}));
    const PixelRows rows = decoder.rows_in_place();
    ASSERT_NE(rows.rgb, nullptr);
    EXPECT_TRUE(std::equal(rows.rgb, rows.rgb + 30, pixels.values.data() + (4 * 30 + 5) * 3));
  }
  const Bytes jpeg = testing::make_jpeg(pixels);
  ASSERT_TRUE(decoder.open(jpeg));
  ASSERT_TRUE(decoder.begin({5, 4, 10, 10}));
  EXPECT_EQ(decoder.rows_in_place().rgb, nullptr);
}

}  // namespace
}  // namespace feedrace::decode
