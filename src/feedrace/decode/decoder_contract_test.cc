// SPDX-License-Identifier: Apache-2.0
// The contract of feedrace/decoder.h, over every decoder.

#include <functional>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/decode/jpeg_decoder.h"
#include "feedrace/decode/npy_decoder.h"
#include "feedrace/decode/png_decoder.h"
#include "feedrace/decode/test_pictures.h"
#include "feedrace/decode/webp_decoder.h"

namespace feedrace::decode {
namespace {

using testing::Bytes;
using testing::decode_region;
using ::testing::HasSubstr;
using testing::make_pixels;

struct Implementation {
  const char* name;
  std::function<std::unique_ptr<Decoder>()> make;
  std::function<Bytes(const testing::Pixels&)> encode;
};

Bytes encode_jpeg(const testing::Pixels& pixels) { return testing::make_jpeg(pixels); }
Bytes encode_png(const testing::Pixels& pixels) { return testing::make_png(pixels); }
Bytes encode_lossy_webp(const testing::Pixels& pixels) { return testing::make_webp(pixels); }
Bytes encode_lossless_webp(const testing::Pixels& pixels) {
  return testing::make_webp(pixels, true);
}
Bytes encode_npy(const testing::Pixels& pixels) { return testing::make_npy(pixels); }
Bytes encode_lz4(const testing::Pixels& pixels) {
  return testing::squeeze_lz4(testing::make_npy(pixels));
}
Bytes encode_zstd(const testing::Pixels& pixels) {
  return testing::squeeze_zstd(testing::make_npy(pixels));
}

class DecoderContract : public ::testing::TestWithParam<Implementation> {
 protected:
  Bytes encode(std::uint32_t width_px, std::uint32_t height_px, std::uint64_t seed = 1) const {
    return GetParam().encode(make_pixels(width_px, height_px, 3, seed));
  }

  std::unique_ptr<Decoder> decoder_ = GetParam().make();
};

TEST_P(DecoderContract, AcceptsItsOwnFormatAndNothingElse) {
  EXPECT_TRUE(decoder_->accepts(encode(8, 8)));
  EXPECT_FALSE(decoder_->accepts({}));
  const Bytes zeros(100);
  EXPECT_FALSE(decoder_->accepts(zeros));
}

TEST_P(DecoderContract, ProbeTellsTheSize) {
  Result<ImageInfo> info = decoder_->probe(encode(33, 21), {});
  ASSERT_TRUE(info) << info.error().message;
  EXPECT_EQ(info->width_px, 33U);
  EXPECT_EQ(info->height_px, 21U);
  EXPECT_EQ(info->component_count, 3U);
  EXPECT_EQ(info->orientation, 1);
}

TEST_P(DecoderContract, RegionsEqualTheWholePictureCut) {
  SampleRandom random(11, 0, 0, 0);
  for (int i = 0; i < 20; ++i) {
    const auto width_px = static_cast<std::uint32_t>(1 + random.below(100));
    const auto height_px = static_cast<std::uint32_t>(1 + random.below(100));
    const Bytes encoded = encode(width_px, height_px, random.next());
    auto whole = decode_region(*decoder_, encoded, {0, 0, width_px, height_px});
    ASSERT_TRUE(whole) << whole.error().message;
    for (int k = 0; k < 20; ++k) {
      const Region region = testing::random_region(random, width_px, height_px);
      auto pixels = decode_region(*decoder_, encoded, region);
      ASSERT_TRUE(pixels) << pixels.error().message;
      ASSERT_EQ(*pixels, testing::cut(*whole, width_px, region));
    }
  }
}

TEST_P(DecoderContract, RowsMayBeReadInAnyPortions) {
  const Bytes encoded = encode(50, 40);
  const auto at_once = decode_region(*decoder_, encoded, {3, 5, 40, 30});
  ASSERT_TRUE(at_once) << at_once.error().message;
  for (const std::uint32_t step : {1U, 2U, 3U, 7U, 29U}) {
    const auto pixels = decode_region(*decoder_, encoded, {3, 5, 40, 30}, step);
    ASSERT_TRUE(pixels) << pixels.error().message;
    EXPECT_EQ(*pixels, *at_once) << step;
  }
}

TEST_P(DecoderContract, RowsInPlaceAreTheRowsThatItReads) {
  const Bytes encoded = encode(50, 40);
  const Region region{3, 5, 40, 30};
  const auto expected = decode_region(*decoder_, encoded, region);
  ASSERT_TRUE(expected) << expected.error().message;
  EXPECT_EQ(decoder_->rows_in_place().rgb, nullptr);  // All are read.
  ASSERT_TRUE(decoder_->begin(encoded, region, {}));
  const PixelRows rows = decoder_->rows_in_place();
  if (rows.rgb == nullptr) return;  // Those that decode have none.
  for (std::size_t y = 0; y < region.height_px; ++y) {
    const std::size_t row_bytes = std::size_t{3} * region.width_px;
    const std::uint8_t* row = rows.rgb + y * rows.row_bytes;
    ASSERT_TRUE(std::equal(row, row + row_bytes, expected->data() + y * row_bytes)) << y;
  }
}

TEST_P(DecoderContract, PaddingBetweenRowsIsLeftAlone) {
  const Bytes encoded = encode(20, 10);
  for (const Region& region : {Region{0, 0, 20, 10}, Region{3, 2, 9, 7}}) {
    const std::size_t row_bytes = std::size_t{region.width_px} * 3 + 5;
    std::vector<std::uint8_t> padded(row_bytes * region.height_px, 0xa5);
    ASSERT_TRUE(decoder_->begin(encoded, region, {}));
    ASSERT_TRUE(decoder_->read_rows(padded.data(), row_bytes, region.height_px));
    const auto dense = decode_region(*decoder_, encoded, region);
    ASSERT_TRUE(dense);
    for (std::size_t i = 0; i < padded.size(); ++i) {
      const std::size_t x = i % row_bytes;
      const bool padding = x >= row_bytes - 5;
      ASSERT_EQ(padded[i], padding ? 0xa5 : (*dense)[i / row_bytes * (row_bytes - 5) + x]) << i;
    }
  }
}

TEST_P(DecoderContract, DamagedBytesGivePixelsOrAFailureAndLeaveNoTrace) {
  const Bytes good = encode(48, 36);
  const auto expected = decode_region(*decoder_, good, {0, 0, 48, 36});
  ASSERT_TRUE(expected);
  SampleRandom random(13, 0, 0, 0);
  int failures = 0;
  for (int i = 0; i < 500; ++i) {
    Bytes damaged = good;
    for (std::uint64_t k = random.below(4); k < 4; ++k) {
      damaged[random.below(damaged.size())] = static_cast<std::byte>(random.next());
    }
    const Result<ImageInfo> info = decoder_->probe(damaged, {1'000'000, 100'000'000});
    if (!info) {
      ++failures;
    } else {
      const Region region = testing::random_region(random, info->width_px, info->height_px);
      const auto pixels = decode_region(*decoder_, damaged, region, 9, {1'000'000, 100'000'000});
      failures += pixels ? 0 : 1;
    }
    if (i % 10 == 0) {
      const auto again = decode_region(*decoder_, good, {0, 0, 48, 36});
      ASSERT_TRUE(again) << again.error().message;
      ASSERT_EQ(*again, *expected);
      ASSERT_EQ(decoder_->complaint(), "");
    }
  }
  EXPECT_GT(failures, 0);
}

TEST_P(DecoderContract, APictureMayBeAbandonedHalfWay) {
  const Bytes encoded = encode(48, 36);
  const auto expected = decode_region(*decoder_, encoded, {0, 0, 48, 36});
  ASSERT_TRUE(decoder_->begin(encoded, {0, 0, 48, 36}, {}));
  std::vector<std::uint8_t> rows(48 * 3 * 5);
  ASSERT_TRUE(decoder_->read_rows(rows.data(), 48 * 3, 5));
  const auto pixels = decode_region(*decoder_, encoded, {0, 0, 48, 36});
  ASSERT_TRUE(pixels);
  EXPECT_EQ(*pixels, *expected);
}

TEST_P(DecoderContract, TooManyPixelsAreRefusedByTheHeader) {
  const Bytes encoded = encode(40, 30);
  EXPECT_TRUE(decoder_->probe(encoded, {1200, 1U << 30}));
  for (const Result<ImageInfo>& info : {decoder_->probe(encoded, {1199, 1U << 30})}) {
    ASSERT_FALSE(info);
    EXPECT_EQ(info.error().code, ErrorCode::kCorruptData);
    EXPECT_THAT(info.error().message,
                HasSubstr("40 x 30 pixels are above the limit of 1,199; raise max_pixels"));
  }
  EXPECT_FALSE(decoder_->begin(encoded, {0, 0, 1, 1}, {1199, 1U << 30}));
}

TEST_P(DecoderContract, ReadingMoreRowsThanThereAreIsRefused) {
  const Bytes encoded = encode(16, 16);
  std::vector<std::uint8_t> rows(16 * 3 * 20);
  Result<void> idle = decoder_->read_rows(rows.data(), 48, 1);
  ASSERT_FALSE(idle);
  EXPECT_EQ(idle.error().code, ErrorCode::kInvalidArgument);
  ASSERT_TRUE(decoder_->begin(encoded, {0, 0, 16, 8}, {}));
  EXPECT_FALSE(decoder_->read_rows(rows.data(), 48, 9));
  EXPECT_TRUE(decoder_->read_rows(rows.data(), 48, 8));
  EXPECT_FALSE(decoder_->read_rows(rows.data(), 48, 1));
}

INSTANTIATE_TEST_SUITE_P(
    EveryDecoder, DecoderContract,
    ::testing::Values(
        Implementation{"Jpeg", [] { return std::make_unique<JpegDecoder>(); }, encode_jpeg},
        Implementation{"Png", [] { return std::make_unique<PngDecoder>(); }, encode_png},
        Implementation{"LossyWebp", [] { return std::make_unique<WebpDecoder>(); },
                       encode_lossy_webp},
        Implementation{"LosslessWebp", [] { return std::make_unique<WebpDecoder>(); },
                       encode_lossless_webp},
        Implementation{"Npy", [] { return std::make_unique<NpyDecoder>(); }, encode_npy},
        Implementation{"NpyLz4", [] { return std::make_unique<NpyDecoder>(); }, encode_lz4},
        Implementation{"NpyZstd", [] { return std::make_unique<NpyDecoder>(); }, encode_zstd}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace
}  // namespace feedrace::decode
