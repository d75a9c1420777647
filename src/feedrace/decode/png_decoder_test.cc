// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/png_decoder.h"

#include <cmath>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/decode/test_pictures.h"

namespace feedrace::decode {
namespace {

using testing::Bytes;
using testing::decode_region;
using ::testing::HasSubstr;
using testing::make_pixels;
using testing::make_png;
using testing::Pixels;

Result<std::vector<std::uint8_t>> decode_whole(PngDecoder& decoder, const Bytes& encoded,
                                               const DecodeLimits& limits = {}) {
  Result<ImageInfo> info = decoder.probe(encoded, limits);
  if (!info) return info.error();
  return decode_region(decoder, encoded, info->whole(), 1U << 30, limits);
}

/// Where chunk `number` of type `type` begins, at its length field.
std::size_t find_chunk(const Bytes& png, std::string_view type) {
  for (std::size_t at = 8; at + 12 <= png.size();) {
    if (std::memcmp(png.data() + at + 4, type.data(), 4) == 0) return at;
    std::size_t length = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      length = length << 8 | std::to_integer<std::size_t>(png[at + i]);
    }
    at += length + 12;
  }
  return png.size();
}

TEST(PngDecoder, SixteenBitsAreScaledByRounding) {
  for (std::uint32_t value = 0; value < 65536; ++value) {
    ASSERT_EQ(scale_16_to_8(value), std::lround(value / 257.0)) << value;
  }
}

TEST(PngDecoder, EightBitChannelsComeOutAsStored) {
  PngDecoder decoder;
  for (const std::uint32_t channel_count : {1U, 2U, 3U, 4U}) {
    const Pixels pixels = make_pixels(31, 17, channel_count);
    const Bytes encoded = make_png(pixels);
    EXPECT_EQ(decoder.probe(encoded, {})->component_count, channel_count);
    Result<std::vector<std::uint8_t>> decoded = decode_whole(decoder, encoded);
    ASSERT_TRUE(decoded) << decoded.error().message;
    for (std::size_t i = 0; i < std::size_t{31} * 17 * 3; ++i) {
      const std::size_t channel = channel_count < 3 ? 0 : i % 3;
      ASSERT_EQ((*decoded)[i], pixels.values[i / 3 * channel_count + channel]) << i;
    }
    EXPECT_EQ(decoder.complaint(), "");
  }
}

TEST(PngDecoder, SixteenBitChannelsAreScaledToEight) {
  PngDecoder decoder;
  for (const std::uint8_t colour_type : std::array<std::uint8_t, 4>{0, 2, 4, 6}) {
    const std::uint32_t channel_count = std::array{1U, 0U, 3U, 0U, 2U, 0U, 4U}.at(colour_type);
    const Pixels deep = make_pixels(20, 10, channel_count * 2);
    Result<std::vector<std::uint8_t>> decoded =
        decode_whole(decoder, make_png(20, 10, 16, colour_type, deep.values));
    ASSERT_TRUE(decoded) << decoded.error().message;
    for (std::size_t i = 0; i < std::size_t{20} * 10 * 3; ++i) {
      const std::size_t channel = channel_count < 3 ? 0 : i % 3;
      const std::size_t at = (i / 3 * channel_count + channel) * 2;
      const std::uint32_t value = deep.values[at] * 256U + deep.values[at + 1];
      ASSERT_EQ((*decoded)[i], std::lround(value / 257.0));
    }
  }
}

TEST(PngDecoder, SmallDepthsOfGreyAreScaledToTheFullRange) {
  PngDecoder decoder;
  for (const std::uint8_t depth : std::array<std::uint8_t, 3>{1, 2, 4}) {
    const std::uint32_t width_px = 13;
    const std::size_t row_bytes = (std::size_t{width_px} * depth + 7) / 8;
    const Pixels packed = make_pixels(static_cast<std::uint32_t>(row_bytes), 9, 1);
    Result<std::vector<std::uint8_t>> decoded =
        decode_whole(decoder, make_png(width_px, 9, depth, 0, packed.values));
    ASSERT_TRUE(decoded) << decoded.error().message;
    const unsigned highest = (1U << depth) - 1;
    for (std::size_t i = 0; i < decoded->size(); ++i) {
      const std::size_t bit = i / 3 % width_px * depth;
      const unsigned byte = packed.values[i / 3 / width_px * row_bytes + bit / 8];
      const unsigned sample = byte >> (8 - depth - bit % 8) & highest;
      ASSERT_EQ((*decoded)[i], sample * 255 / highest) << depth << " bits, byte " << i;
    }
  }
}

TEST(PngDecoder, RegionsOfEveryKindEqualTheWholePictureCut) {
  PngDecoder decoder;
  SampleRandom random(5, 0, 0, 0);
  struct Kind {
    std::uint8_t depth;
    std::uint8_t colour_type;
    std::uint32_t bits_per_px;
  };
  for (const Kind kind :
       {Kind{1, 0, 1}, Kind{2, 0, 2}, Kind{4, 0, 4}, Kind{8, 0, 8}, Kind{16, 0, 16}, Kind{8, 2, 24},
        Kind{16, 2, 48}, Kind{1, 3, 1}, Kind{2, 3, 2}, Kind{4, 3, 4}, Kind{8, 3, 8}, Kind{8, 4, 16},
        Kind{16, 4, 32}, Kind{8, 6, 32}, Kind{16, 6, 64}}) {
    SCOPED_TRACE(fmt::format("depth {} colour type {}", kind.depth, kind.colour_type));
    const std::uint32_t row_bytes = (37 * kind.bits_per_px + 7) / 8;
    const Pixels packed = make_pixels(row_bytes, 29, 1, kind.depth + 17U * kind.colour_type);
    const std::uint32_t colours = kind.colour_type == 3 ? 1U << kind.depth : 0;
    const Bytes encoded = make_png(37, 29, kind.depth, kind.colour_type, packed.values, colours);
    Result<std::vector<std::uint8_t>> whole = decode_whole(decoder, encoded);
    ASSERT_TRUE(whole) << whole.error().message;
    for (int i = 0; i < 40; ++i) {
      const Region region = testing::random_region(random, 37, 29);
      Result<std::vector<std::uint8_t>> pixels = decode_region(decoder, encoded, region, 3);
      ASSERT_TRUE(pixels) << pixels.error().message;
      ASSERT_EQ(*pixels, testing::cut(*whole, 37, region));
    }
  }
}

TEST(PngDecoder, IndicesPastThePaletteAreAFailure) {
  PngDecoder decoder;
  const std::vector<std::uint8_t> packed = {0, 1, 2, 3, 0, 9, 2, 3};
  Result<std::vector<std::uint8_t>> decoded =
      decode_whole(decoder, make_png(4, 2, 8, 3, packed, 4));
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, HasSubstr("palette index 9 in row 1, the palette has 4"));
  EXPECT_TRUE(decode_region(decoder, make_png(4, 2, 8, 3, packed, 4), {0, 0, 4, 1}));
}

TEST(PngDecoder, EveryTruncationIsAFailureOrAComplaint) {
  PngDecoder decoder;
  const Bytes encoded = make_png(make_pixels(30, 20));
  const std::size_t end_chunk = find_chunk(encoded, "IEND");
  for (std::size_t size = 0; size < encoded.size(); ++size) {
    const Bytes cut(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(size));
    Result<std::vector<std::uint8_t>> decoded = decode_whole(decoder, cut);
    if (decoded) {
      EXPECT_GE(size, end_chunk - 8) << "rows can't be there yet";
      if (size >= end_chunk + 8) continue;  // Of IEND only the checksum is gone.
      EXPECT_THAT(decoder.complaint(), HasSubstr("IEND"));
    } else {
      EXPECT_EQ(decoded.error().code, ErrorCode::kCorruptData) << decoded.error().message;
    }
  }
}

TEST(PngDecoder, AChangedByteOfPixelDataIsAFailure) {
  PngDecoder decoder;
  const Bytes encoded = make_png(make_pixels(30, 20));
  const std::size_t data = find_chunk(encoded, "IDAT") + 8;
  const std::size_t end = find_chunk(encoded, "IEND");
  for (std::size_t at = data; at < end; at += 7) {
    Bytes damaged = encoded;
    damaged[at] ^= std::byte{0x10};
    Result<std::vector<std::uint8_t>> decoded = decode_whole(decoder, damaged);
    ASSERT_FALSE(decoded) << at;
    EXPECT_EQ(decoded.error().code, ErrorCode::kCorruptData);
  }
}

TEST(PngDecoder, AncillaryChunksAreNeverLookedInto) {
  PngDecoder decoder;
  const Bytes encoded = make_png(make_pixels(30, 20));
  Result<std::vector<std::uint8_t>> plain = decode_whole(decoder, encoded);
  ASSERT_TRUE(plain);
  // A compressed text that is no zlib data, with a wrong checksum.
  const std::string_view junk("\0\0\0\x06zTXta\0\0junk\x12\x34", 18);
  Bytes with_text = encoded;
  const auto* begin = reinterpret_cast<const std::byte*>(junk.data());
  with_text.insert(with_text.begin() + static_cast<std::ptrdiff_t>(find_chunk(encoded, "IDAT")),
                   begin, begin + junk.size());
  Result<std::vector<std::uint8_t>> decoded = decode_whole(decoder, with_text);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(*decoded, *plain);
}

TEST(PngDecoder, AnInterlacedPictureCountsAgainstTheMemoryLimit) {
  PngDecoder decoder;
  Bytes encoded = make_png(make_pixels(300, 300));
  const DecodeLimits limits{DecodeLimits::kDefaultMaxPixels, 100'000};
  EXPECT_TRUE(decode_whole(decoder, encoded, limits));
  encoded[28] = std::byte{1};  // The interlace method; its checksum is not looked at before.
  Result<std::vector<std::uint8_t>> decoded = decode_whole(decoder, encoded, limits);
  ASSERT_FALSE(decoded);
  EXPECT_THAT(decoded.error().message, HasSubstr("raise max_memory_bytes"));
}

}  // namespace
}  // namespace feedrace::decode
