// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/crop_index.h"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/decode/image_decoder.h"
#include "feedrace/decode/test_pictures.h"
#include "feedrace/random.h"

namespace feedrace::decode {
namespace {

using testing::Bytes;

Bytes picture(std::uint64_t seed, const testing::JpegOptions& options = {}) {
  return testing::make_jpeg(testing::make_pixels(310, 230, 3, seed), options);
}

std::vector<std::uint8_t> decode(ImageDecoder& decoder, const Bytes& encoded, const Region& region,
                                 std::span<const std::byte> crop_index) {
  std::vector<std::uint8_t> rgb(std::size_t{3} * region.width_px * region.height_px);
  EXPECT_TRUE(decoder.open(encoded, crop_index));
  EXPECT_TRUE(decoder.read_region(region, rgb.data(), std::size_t{3} * region.width_px));
  EXPECT_EQ(decoder.complaint(), "");
  return rgb;
}

Region random_region(SampleRandom& random) {
  Region region;
  region.x_px = static_cast<std::uint32_t>(random.below(310));
  region.y_px = static_cast<std::uint32_t>(random.below(230));
  region.width_px = 1 + static_cast<std::uint32_t>(random.below(310 - region.x_px));
  region.height_px = 1 + static_cast<std::uint32_t>(random.below(230 - region.y_px));
  return region;
}

TEST(DecodingByCropIndex, GivesTheSamePixels) {
  ImageDecoder decoder;
  SampleRandom random(3, 0, 0, 0);
  for (const int sampling : {0, 1, 2, 3}) {
    testing::JpegOptions options;
    options.luma_sampling = {1 + sampling % 2, 1 + sampling / 2};
    const Bytes encoded = picture(5, options);
    const auto index = jpeg::make_crop_index(encoded);
    ASSERT_TRUE(index);
    for (int i = 0; i < 100; ++i) {
      const Region region = random_region(random);
      const auto plain = decode(decoder, encoded, region, {});
      EXPECT_FALSE(decoder.crop_use().is_used);
      ASSERT_EQ(decode(decoder, encoded, region, *index), plain);
      EXPECT_EQ(decoder.crop_use().refusal, nullptr);
    }
    decode(decoder, encoded, {50, 60, 70, 80}, *index);
    EXPECT_TRUE(decoder.crop_use().is_used);
    decode(decoder, encoded, {0, 0, 310, 230}, *index);
    EXPECT_FALSE(decoder.crop_use().is_used);
  }
}

TEST(DecodingByCropIndex, RefusesThatOfAnotherPicture) {
  ImageDecoder decoder;
  const Bytes encoded = picture(5);
  const Region region{50, 60, 70, 80};
  const auto plain = decode(decoder, encoded, region, {});
  const auto other = jpeg::make_crop_index(picture(6));
  ASSERT_TRUE(other);
  EXPECT_EQ(decode(decoder, encoded, region, *other), plain);
  EXPECT_FALSE(decoder.crop_use().is_used);
  EXPECT_STREQ(decoder.crop_use().refusal, "of another file, or damaged");
  decode(decoder, encoded, region, {});
  EXPECT_EQ(decoder.crop_use().refusal, nullptr);
}

TEST(DecodingByCropIndex, RefusesThatOfAPictureThatOursDoesNotDecode) {
  const auto index = jpeg::make_crop_index(picture(5));
  ASSERT_TRUE(index);
  testing::JpegOptions progressive;
  progressive.progressive = true;
  const Bytes replaced = picture(5, progressive);
  const Bytes png = testing::make_png(testing::make_pixels(310, 230, 3, 5));
  const Region region{50, 60, 70, 80};
  for (const Bytes& encoded : {replaced, png}) {
    ImageDecoder decoder;
    const auto plain = decode(decoder, encoded, region, {});
    EXPECT_EQ(decoder.crop_use().refusal, nullptr);
    EXPECT_EQ(decode(decoder, encoded, region, *index), plain);
    EXPECT_FALSE(decoder.crop_use().is_used);
    EXPECT_STREQ(decoder.crop_use().refusal, "of another file, or damaged");
    // Who turned ours off uses no crop index, and misses none.
    ImageDecoder off({}, false, JpegEngine::kLibjpegTurbo);
    EXPECT_EQ(decode(off, encoded, region, *index), plain);
    EXPECT_EQ(off.crop_use().refusal, nullptr);
  }
}

}  // namespace
}  // namespace feedrace::decode
