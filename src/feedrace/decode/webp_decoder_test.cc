// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/webp_decoder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <webp/decode.h>

#include "feedrace/decode/test_pictures.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::decode {
namespace {

using testing::Bytes;
using testing::decode_region;
using ::testing::HasSubstr;
using testing::make_pixels;
using testing::make_webp;
using testing::Pixels;

std::vector<std::uint8_t> reference(const Bytes& encoded) {
  int width = 0;
  int height = 0;
  std::uint8_t* rgb = WebPDecodeRGB(reinterpret_cast<const std::uint8_t*>(encoded.data()),
                                    encoded.size(), &width, &height);
  std::vector<std::uint8_t> out(rgb, rgb + std::ptrdiff_t{width} * height * 3);
  WebPFree(rgb);
  return out;
}

TEST(WebpDecoder, RegionsEqualTheWholePictureCut) {
  WebpDecoder decoder;
  SampleRandom random(9, 0, 0, 0);
  for (int i = 0; i < 60; ++i) {
    const auto width_px = static_cast<std::uint32_t>(1 + random.below(70));
    const auto height_px = static_cast<std::uint32_t>(1 + random.below(70));
    const std::uint32_t channel_count = i % 3 == 0 ? 4 : 3;
    const bool lossless = i % 2 == 0;
    SCOPED_TRACE(
        fmt::format("{} x {} x {}, lossless {}", width_px, height_px, channel_count, lossless));
    const Bytes encoded =
        make_webp(make_pixels(width_px, height_px, channel_count, random.next()), lossless);
    const std::vector<std::uint8_t> whole = reference(encoded);
    for (int k = 0; k < 40; ++k) {
      const Region region = testing::random_region(random, width_px, height_px);
      Result<std::vector<std::uint8_t>> pixels = decode_region(decoder, encoded, region, 5);
      ASSERT_TRUE(pixels) << pixels.error().message;
      ASSERT_EQ(*pixels, testing::cut(whole, width_px, region)) << fmt::format(
          "region {},{} {}x{}", region.x_px, region.y_px, region.width_px, region.height_px);
    }
  }
}

TEST(WebpDecoder, ColourUnderFullTransparencyIsKept) {
  WebpDecoder decoder;
  Pixels pixels = make_pixels(8, 8, 4);
  for (std::size_t i = 3; i < pixels.values.size(); i += 4) pixels.values[i] = 255;
  const Bytes encoded = make_webp(pixels, true);
  Result<std::vector<std::uint8_t>> decoded = decode_region(decoder, encoded, {0, 0, 8, 8});
  ASSERT_TRUE(decoded) << decoded.error().message;
  for (std::size_t i = 0; i < decoded->size(); ++i) {
    ASSERT_EQ((*decoded)[i], pixels.values[i / 3 * 4 + i % 3]);
  }
}

TEST(WebpDecoder, EveryTruncationIsAFailure) {
  WebpDecoder decoder;
  for (const bool lossless : {false, true}) {
    const Bytes encoded = make_webp(make_pixels(40, 30), lossless);
    for (std::size_t size = 0; size < encoded.size(); ++size) {
      const Bytes cut(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(size));
      Result<std::vector<std::uint8_t>> decoded = decode_region(decoder, cut, {0, 0, 40, 30});
      ASSERT_FALSE(decoded) << size;
      EXPECT_EQ(decoded.error().code, ErrorCode::kCorruptData);
      EXPECT_THAT(decoded.error().message, HasSubstr("truncated"));
    }
  }
}

TEST(WebpDecoder, AnAnimationWhoseFirstFrameIsSmallerThanTheCanvasIsRefused) {
  WebpDecoder decoder;
  const std::string content =
      feedrace::testing::read_file(FEEDRACE_TEST_DATA "/cases/images/webp_animated.webp");
  const auto bytes = std::as_bytes(std::span(content));
  Bytes encoded(bytes.begin(), bytes.end());
  Result<ImageInfo> info = decoder.probe(encoded, {});
  ASSERT_TRUE(info) << info.error().message;
  encoded[24] = std::byte{200};  // The canvas is 201 pixels wide now.
  info = decoder.probe(encoded, {});
  ASSERT_FALSE(info);
  EXPECT_EQ(info.error().code, ErrorCode::kUnsupported);
  EXPECT_THAT(info.error().message, HasSubstr("animated WebP"));
}

TEST(WebpDecoder, ALosslessPictureCountsAgainstTheMemoryLimit) {
  WebpDecoder decoder;
  const Bytes encoded = make_webp(make_pixels(100, 100), true);
  Result<void> begun =
      decoder.begin(encoded, {0, 0, 10, 10}, {DecodeLimits::kDefaultMaxPixels, 40'000});
  ASSERT_FALSE(begun);
  EXPECT_THAT(begun.error().message, HasSubstr("raise max_memory_bytes"));
}

}  // namespace
}  // namespace feedrace::decode
