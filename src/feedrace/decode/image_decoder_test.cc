// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/image_decoder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/decode/test_pictures.h"
#include "feedrace/decode/turn.h"

namespace feedrace::decode {
namespace {

using testing::Bytes;
using ::testing::HasSubstr;
using testing::make_jpeg;
using testing::make_pixels;

Result<std::vector<std::uint8_t>> read(ImageDecoder& decoder, const Bytes& encoded,
                                       const Region& region) {
  Result<ImageInfo> info = decoder.open(encoded);
  if (!info) return info.error();
  std::vector<std::uint8_t> rgb(std::size_t{region.width_px} * region.height_px * 3);
  Result<void> done = decoder.read_region(region, rgb.data(), std::size_t{region.width_px} * 3);
  if (!done) return done.error();
  return rgb;
}

/// Turns a picture pixel by pixel, by the table of the EXIF standard: where the stored row 0 and
/// column 0 are in the upright picture.
std::vector<std::uint8_t> turned(const std::vector<std::uint8_t>& stored, std::uint32_t width_px,
                                 std::uint32_t height_px, int orientation) {
  const std::uint32_t out_width_px = orientation >= 5 ? height_px : width_px;
  std::vector<std::uint8_t> out(stored.size());
  for (std::uint32_t row = 0; row < height_px; ++row) {
    for (std::uint32_t column = 0; column < width_px; ++column) {
      std::uint32_t x = 0;
      std::uint32_t y = 0;
      switch (orientation) {
        case 1:
          y = row, x = column;
          break;  // top, left
        case 2:
          y = row, x = width_px - 1 - column;
          break;  // top, right
        case 3:
          y = height_px - 1 - row, x = width_px - 1 - column;
          break;  // bottom, right
        case 4:
          y = height_px - 1 - row, x = column;
          break;  // bottom, left
        case 5:
          x = row, y = column;
          break;  // left, top
        case 6:
          x = height_px - 1 - row, y = column;
          break;  // right, top
        case 7:
          x = height_px - 1 - row, y = width_px - 1 - column;
          break;  // right, bottom
        default:
          x = row, y = width_px - 1 - column;
          break;  // left, bottom
      }
      for (std::size_t channel = 0; channel < 3; ++channel) {
        out[(std::size_t{y} * out_width_px + x) * 3 + channel] =
            stored[(std::size_t{row} * width_px + column) * 3 + channel];
      }
    }
  }
  return out;
}

TEST(ImageDecoder, EveryOrientationEqualsTurningTheWholePictureThenCutting) {
  constexpr std::uint32_t kWidth = 45;
  constexpr std::uint32_t kHeight = 31;
  const Bytes plain = make_jpeg(make_pixels(kWidth, kHeight));
  ImageDecoder as_stored;
  const auto stored = read(as_stored, plain, {0, 0, kWidth, kHeight});
  ASSERT_TRUE(stored) << stored.error().message;
  ImageDecoder decoder({}, true);
  SampleRandom random(2, 0, 0, 0);
  for (std::uint8_t orientation = 1; orientation <= 8; ++orientation) {
    const Bytes encoded = testing::with_orientation(plain, orientation);
    const std::uint32_t width_px = orientation >= 5 ? kHeight : kWidth;
    const std::uint32_t height_px = orientation >= 5 ? kWidth : kHeight;
    Result<ImageInfo> info = decoder.open(encoded);
    ASSERT_TRUE(info) << info.error().message;
    EXPECT_EQ(info->whole(), (Region{0, 0, width_px, height_px}));
    EXPECT_EQ(info->orientation, orientation);
    const std::vector<std::uint8_t> upright = turned(*stored, kWidth, kHeight, orientation);
    for (int i = 0; i < 30; ++i) {
      const Region region =
          i == 0 ? info->whole() : testing::random_region(random, width_px, height_px);
      const auto pixels = read(decoder, encoded, region);
      ASSERT_TRUE(pixels) << pixels.error().message;
      ASSERT_EQ(*pixels, testing::cut(upright, width_px, region)) << int{orientation};
    }
  }
}

TEST(ImageDecoder, OrientationIsLeftAloneUnlessAskedFor) {
  const Bytes plain = make_jpeg(make_pixels(20, 10));
  ImageDecoder decoder;
  const auto expected = read(decoder, plain, {0, 0, 20, 10});
  const auto pixels = read(decoder, testing::with_orientation(plain, 6), {0, 0, 20, 10});
  ASSERT_TRUE(pixels) << pixels.error().message;
  EXPECT_EQ(*pixels, *expected);
}

TEST(ImageDecoder, FormatsMayAlternate) {
  const testing::Pixels source = make_pixels(24, 18);
  const std::array<Bytes, 3> encoded = {make_jpeg(source), testing::make_png(source),
                                        testing::make_webp(source, true)};
  ImageDecoder decoder;
  for (int i = 0; i < 9; ++i) {
    const auto which = static_cast<std::size_t>(i % 3);
    Result<ImageInfo> info = decoder.open(encoded[which]);
    ASSERT_TRUE(info) << info.error().message;
    constexpr std::array kNames = {"jpeg", "png", "webp"};
    EXPECT_STREQ(info->format, kNames[which]);
    const auto pixels = read(decoder, encoded[which], {0, 0, 24, 18});
    ASSERT_TRUE(pixels) << pixels.error().message;
    if (which == 0) continue;
    EXPECT_EQ(*pixels, source.values);
  }
}

TEST(ImageDecoder, SeveralRegionsOfOnePictureMayBeRead) {
  const Bytes encoded = make_jpeg(make_pixels(60, 40));
  ImageDecoder decoder;
  const auto whole = read(decoder, encoded, {0, 0, 60, 40});
  ASSERT_TRUE(whole);
  for (const Region& region : {Region{5, 5, 10, 10}, Region{0, 0, 60, 40}, Region{59, 39, 1, 1}}) {
    std::vector<std::uint8_t> rgb(std::size_t{region.width_px} * region.height_px * 3);
    ASSERT_TRUE(decoder.read_region(region, rgb.data(), std::size_t{region.width_px} * 3));
    EXPECT_EQ(rgb, testing::cut(*whole, 60, region));
  }
}

TEST(ImageDecoder, RegionsOutsideThePictureAreRefused) {
  const Bytes encoded = make_jpeg(make_pixels(20, 10));
  ImageDecoder decoder;
  ASSERT_TRUE(decoder.open(encoded));
  const std::uint32_t huge = 0xffffffff;
  for (const Region& region :
       {Region{0, 0, 0, 1}, Region{0, 0, 1, 0}, Region{0, 0, 21, 10}, Region{1, 0, 20, 10},
        Region{20, 0, 1, 1}, Region{0, 9, 1, 2}, Region{1, 1, huge, huge}, Region{huge, 0, 2, 1}}) {
    Result<void> begun = decoder.begin(region);
    ASSERT_FALSE(begun);
    EXPECT_EQ(begun.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(begun.error().message, HasSubstr("of a picture of 20x10 pixels"));
  }
}

TEST(ImageDecoder, NothingIsReadBeforeAPictureIsOpen) {
  ImageDecoder decoder;
  EXPECT_FALSE(decoder.begin({0, 0, 1, 1}));
  std::uint8_t rgb[3];
  EXPECT_FALSE(decoder.read_rows(rgb, 3, 1));
  EXPECT_EQ(decoder.complaint(), "");
  const Bytes nothing;
  EXPECT_FALSE(decoder.open(nothing));
  EXPECT_FALSE(decoder.begin({0, 0, 1, 1}));
}

TEST(ImageDecoder, MemoryIsKeptButNotThatOfAGiant) {
  ImageDecoder decoder({}, true);
  const Bytes small = testing::with_orientation(make_jpeg(make_pixels(64, 64)), 6);
  ASSERT_TRUE(read(decoder, small, {0, 0, 64, 64}));
  const std::size_t kept = decoder.scratch_bytes();
  EXPECT_GE(kept, std::size_t{64} * 64 * 3);
  ASSERT_TRUE(read(decoder, small, {0, 0, 64, 64}));
  EXPECT_EQ(decoder.scratch_bytes(), kept);
  const Bytes giant = testing::with_orientation(make_jpeg(make_pixels(3000, 2000)), 6);
  ASSERT_TRUE(read(decoder, giant, {0, 0, 2000, 3000}));
  EXPECT_GT(decoder.scratch_bytes(), Scratch::kKeptBytes);
  ASSERT_TRUE(read(decoder, small, {0, 0, 64, 64}));
  EXPECT_LT(decoder.scratch_bytes(), std::size_t{1} << 20);
}

TEST(ImageDecoder, AFailureLeavesTheNextPictureUntouched) {
  const Bytes good = make_jpeg(make_pixels(30, 30));
  Bytes cut = good;
  cut.resize(good.size() / 2);
  ImageDecoder decoder;
  const auto expected = read(decoder, good, {0, 0, 30, 30});
  const auto failed = read(decoder, cut, {0, 0, 30, 30});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kCorruptData);
  const auto again = read(decoder, good, {0, 0, 30, 30});
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *expected);
}

}  // namespace
}  // namespace feedrace::decode
