// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/jpeg_decoder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/decode/test_pictures.h"

namespace feedrace::decode {
namespace {

using testing::Bytes;
using testing::decode_region;
using ::testing::HasSubstr;
using testing::JpegOptions;
using testing::make_jpeg;
using testing::make_pixels;
using testing::Pixels;

/// Decodes with plain libjpeg: the settings that Pillow uses, no cropping, no skipping.
std::vector<std::uint8_t> reference(const Bytes& encoded) {
  jpeg_decompress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_decompress(&cinfo);
  jpeg_mem_src(&cinfo, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size());
  jpeg_read_header(&cinfo, TRUE);
  cinfo.out_color_space = JCS_RGB;
  cinfo.dct_method = JDCT_ISLOW;
  jpeg_start_decompress(&cinfo);
  std::vector<std::uint8_t> out(std::size_t{cinfo.output_width} * 3 * cinfo.output_height);
  while (cinfo.output_scanline < cinfo.output_height) {
    JSAMPROW row = out.data() + std::size_t{cinfo.output_scanline} * cinfo.output_width * 3;
    jpeg_read_scanlines(&cinfo, &row, 1);
  }
  jpeg_finish_decompress(&cinfo);
  jpeg_destroy_decompress(&cinfo);
  return out;
}

Result<std::vector<std::uint8_t>> decode_whole(JpegDecoder& decoder, const Bytes& encoded,
                                               const DecodeLimits& limits = {}) {
  Result<ImageInfo> info = decoder.probe(encoded, limits);
  if (!info) return info.error();
  return decode_region(decoder, encoded, info->whole(), 1U << 30, limits);
}

std::string failure_of(JpegDecoder& decoder, const Bytes& encoded,
                       const DecodeLimits& limits = {}) {
  Result<std::vector<std::uint8_t>> pixels = decode_whole(decoder, encoded, limits);
  return pixels ? "" : pixels.error().message;
}

/// Random regions of one picture; all must equal the whole picture, cut.
void expect_regions_equal_cuts(JpegDecoder& decoder, const Bytes& encoded, std::uint32_t width_px,
                               std::uint32_t height_px, int count) {
  const std::vector<std::uint8_t> whole = reference(encoded);
  SampleRandom random(width_px, height_px, encoded.size(), 0);
  for (int i = 0; i < count; ++i) {
    const Region region = testing::random_region(random, width_px, height_px);
    const auto step = static_cast<std::uint32_t>(1 + random.below(height_px));
    Result<std::vector<std::uint8_t>> pixels = decode_region(decoder, encoded, region, step);
    ASSERT_TRUE(pixels) << pixels.error().message;
    ASSERT_EQ(*pixels, testing::cut(whole, width_px, region))
        << fmt::format("region {},{} {}x{} of {}x{}", region.x_px, region.y_px, region.width_px,
                       region.height_px, width_px, height_px);
  }
  EXPECT_EQ(decoder.complaint(), "");
}

struct Sampling {
  std::array<int, 2> luma;
  std::array<int, 2> chroma;
};

/// 4:4:4, 4:2:2, 4:2:0, 4:4:0, 4:1:1, 4:1:0, 4:4:1 and some that no camera writes.
constexpr std::array kSamplings = {
    Sampling{{1, 1}, {1, 1}}, Sampling{{2, 1}, {1, 1}}, Sampling{{2, 2}, {1, 1}},
    Sampling{{1, 2}, {1, 1}}, Sampling{{4, 1}, {1, 1}}, Sampling{{4, 2}, {1, 1}},
    Sampling{{1, 4}, {1, 1}}, Sampling{{2, 4}, {1, 1}}, Sampling{{2, 2}, {2, 1}},
    Sampling{{2, 2}, {1, 2}}, Sampling{{1, 1}, {2, 2}}, Sampling{{3, 1}, {1, 1}},
    Sampling{{1, 3}, {1, 1}}, Sampling{{3, 2}, {1, 2}}, Sampling{{1, 2}, {2, 1}},
};

TEST(JpegDecoder, RegionsOfEverySamplingEqualTheWholePictureCut) {
  JpegDecoder decoder;
  for (const Sampling& sampling : kSamplings) {
    for (const bool progressive : {false, true}) {
      for (const unsigned restart_blocks : {0U, 3U}) {
        SCOPED_TRACE(fmt::format("luma {}x{} chroma {}x{} progressive {} restart {}",
                                 sampling.luma[0], sampling.luma[1], sampling.chroma[0],
                                 sampling.chroma[1], progressive, restart_blocks));
        JpegOptions options;
        options.luma_sampling = sampling.luma;
        options.chroma_sampling = sampling.chroma;
        options.progressive = progressive;
        options.restart_blocks = restart_blocks;
        const Bytes encoded = make_jpeg(make_pixels(151, 117), options);
        expect_regions_equal_cuts(decoder, encoded, 151, 117, 60);
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(JpegDecoder, RegionsOfOddAndTinySizesEqualTheWholePictureCut) {
  JpegDecoder decoder;
  SampleRandom random(7, 0, 0, 0);
  for (int i = 0; i < 400; ++i) {
    const auto width_px = static_cast<std::uint32_t>(1 + random.below(i % 3 == 0 ? 20 : 90));
    const auto height_px = static_cast<std::uint32_t>(1 + random.below(i % 3 == 1 ? 20 : 90));
    const Sampling& sampling = kSamplings.at(random.below(kSamplings.size()));
    JpegOptions options;
    options.luma_sampling = sampling.luma;
    options.chroma_sampling = sampling.chroma;
    options.progressive = i % 5 == 0;
    options.separate_scans = i % 7 == 0;
    options.arithmetic = i % 11 == 0;
    SCOPED_TRACE(fmt::format("luma {}x{} chroma {}x{} case {}", sampling.luma[0], sampling.luma[1],
                             sampling.chroma[0], sampling.chroma[1], i));
    const Bytes encoded = make_jpeg(make_pixels(width_px, height_px, 3, random.next()), options);
    expect_regions_equal_cuts(decoder, encoded, width_px, height_px, 25);
    if (HasFatalFailure()) return;
  }
}

TEST(JpegDecoder, EveryRowAndColumnMayBeginARegion) {
  JpegDecoder decoder;
  const std::uint32_t side_px = 70;
  for (const Sampling& sampling : kSamplings) {
    JpegOptions options;
    options.luma_sampling = sampling.luma;
    options.chroma_sampling = sampling.chroma;
    const Bytes encoded = make_jpeg(make_pixels(side_px, side_px), options);
    const std::vector<std::uint8_t> whole = reference(encoded);
    for (std::uint32_t at = 0; at < side_px; ++at) {
      for (const std::uint32_t size : {1U, 2U, 9U}) {
        const std::uint32_t extent = std::min(size, side_px - at);
        for (const Region& region : {Region{at, 0, extent, side_px}, Region{0, at, side_px, extent},
                                     Region{at, at, extent, extent}}) {
          Result<std::vector<std::uint8_t>> pixels = decode_region(decoder, encoded, region);
          ASSERT_TRUE(pixels) << pixels.error().message;
          ASSERT_EQ(*pixels, testing::cut(whole, side_px, region))
              << fmt::format("luma {}x{} chroma {}x{}, region {},{} {}x{}", sampling.luma[0],
                             sampling.luma[1], sampling.chroma[0], sampling.chroma[1], region.x_px,
                             region.y_px, region.width_px, region.height_px);
        }
      }
    }
  }
}

TEST(JpegDecoder, GreyIsRepeated) {
  JpegDecoder decoder;
  JpegOptions options;
  options.stored_as = JCS_GRAYSCALE;
  for (const int factor : {1, 2}) {  // Sampling of a single component means nothing.
    options.luma_sampling = {factor, factor};
    const Bytes encoded = make_jpeg(make_pixels(61, 47, 1), options);
    EXPECT_EQ(decoder.probe(encoded, {})->component_count, 1U);
    expect_regions_equal_cuts(decoder, encoded, 61, 47, 100);
  }
}

TEST(JpegDecoder, FourComponentsAreTakenAsInvertedInk) {
  JpegDecoder decoder;
  Pixels ink{16, 16, 4, std::vector<std::uint8_t>(16 * 16 * 4)};
  for (std::size_t i = 0; i < ink.values.size(); i += 4) {
    ink.values[i] = 200;      // Inverted cyan: 55 of 255 ink.
    ink.values[i + 1] = 255;  // No magenta.
    ink.values[i + 2] = 0;    // Full yellow.
    ink.values[i + 3] = 128;  // About half black.
  }
  for (const J_COLOR_SPACE stored_as : {JCS_CMYK, JCS_YCCK}) {
    JpegOptions options;
    options.quality = 100;
    options.luma_sampling = {1, 1};
    options.stored_as = stored_as;
    Result<std::vector<std::uint8_t>> pixels = decode_whole(decoder, make_jpeg(ink, options));
    ASSERT_TRUE(pixels) << pixels.error().message;
    EXPECT_NEAR((*pixels)[0], 200 * 128 / 255, 2);
    EXPECT_NEAR((*pixels)[1], 128, 2);
    EXPECT_NEAR((*pixels)[2], 0, 2);
  }
}

TEST(JpegDecoder, RegionsOfFourComponentsEqualTheWholePictureCut) {
  JpegDecoder decoder;
  JpegOptions options;
  options.stored_as = JCS_YCCK;
  const Bytes encoded = make_jpeg(make_pixels(75, 66, 4), options);
  Result<std::vector<std::uint8_t>> whole = decode_whole(decoder, encoded);
  ASSERT_TRUE(whole) << whole.error().message;
  SampleRandom random(3, 0, 0, 0);
  for (int i = 0; i < 100; ++i) {
    const Region region = testing::random_region(random, 75, 66);
    Result<std::vector<std::uint8_t>> pixels = decode_region(decoder, encoded, region);
    ASSERT_TRUE(pixels) << pixels.error().message;
    ASSERT_EQ(*pixels, testing::cut(*whole, 75, region));
  }
}

TEST(JpegDecoder, EveryTruncationIsAFailureOrAComplaint) {
  JpegDecoder decoder;
  for (const bool progressive : {false, true}) {
    JpegOptions options;
    options.progressive = progressive;
    const Bytes encoded = make_jpeg(make_pixels(70, 50), options);
    Result<std::vector<std::uint8_t>> whole = decode_whole(decoder, encoded);
    ASSERT_TRUE(whole) << whole.error().message;
    for (std::size_t size = 0; size < encoded.size(); ++size) {
      const Bytes cut(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(size));
      Result<std::vector<std::uint8_t>> pixels = decode_whole(decoder, cut);
      if (!pixels) {
        EXPECT_EQ(pixels.error().code, ErrorCode::kCorruptData) << pixels.error().message;
        continue;
      }
      EXPECT_EQ(*pixels, *whole) << size;  // Only the end marker is gone, in whole or in part.
      EXPECT_THAT(decoder.complaint(), HasSubstr("EOI")) << size;
    }
  }
}

TEST(JpegDecoder, ARegionAboveTheDamageComplainsThatTheEndIsMissing) {
  JpegDecoder decoder;
  Bytes encoded = make_jpeg(make_pixels(200, 200));
  encoded.resize(encoded.size() * 3 / 4);
  ASSERT_TRUE(decode_region(decoder, encoded, {0, 0, 200, 20}));
  EXPECT_EQ(decoder.complaint(), "the end marker (EOI) is missing");
}

TEST(JpegDecoder, DataLeftOverAtTheBottomIsAComplaint) {
  JpegDecoder decoder;
  Bytes encoded = make_jpeg(make_pixels(40, 40));
  encoded.insert(encoded.end() - 2, 7, std::byte{0x11});
  ASSERT_TRUE(decode_whole(decoder, encoded));
  EXPECT_THAT(decoder.complaint(), HasSubstr("extraneous bytes before marker 0xd9"));
}

TEST(JpegDecoder, TablesOfAnEarlierPictureAreForgotten) {
  JpegDecoder decoder;
  const Bytes good = make_jpeg(make_pixels(40, 40));
  Bytes without_tables = good;  // Quantisation tables become comments.
  for (std::size_t i = 0; i + 3 < without_tables.size(); ++i) {
    if (without_tables[i] == std::byte{0xff} && without_tables[i + 1] == std::byte{0xdb}) {
      without_tables[i + 1] = std::byte{0xfe};
    }
  }
  const std::string first = failure_of(decoder, without_tables);
  ASSERT_TRUE(decode_whole(decoder, good));
  EXPECT_EQ(failure_of(decoder, without_tables), first);
  EXPECT_THAT(first, HasSubstr("uantization table"));
}

/// `encoded` up to the end of scan `scan_count`, with an end marker.
Bytes first_scans(const Bytes& encoded, int scan_count) {
  int seen = 0;
  for (std::size_t i = 0; i + 1 < encoded.size(); ++i) {
    if (encoded[i] != std::byte{0xff} || encoded[i + 1] != std::byte{0xda}) continue;
    if (seen++ < scan_count) continue;
    Bytes out(encoded.begin(), encoded.begin() + static_cast<std::ptrdiff_t>(i));
    out.insert(out.end(), {std::byte{0xff}, std::byte{0xd9}});
    return out;
  }
  return encoded;
}

TEST(JpegDecoder, AProgressivePictureWithoutItsLastScansIsSmoothedAlikeAndFlagged) {
  JpegDecoder decoder;
  JpegOptions options;
  options.progressive = true;
  const Bytes encoded = first_scans(make_jpeg(make_pixels(90, 80), options), 1);
  const std::vector<std::uint8_t> whole = reference(encoded);
  SampleRandom random(17, 0, 0, 0);
  for (int i = 0; i < 100; ++i) {
    const Region region = testing::random_region(random, 90, 80);
    const auto pixels = decode_region(decoder, encoded, region);
    ASSERT_TRUE(pixels) << pixels.error().message;
    ASSERT_EQ(*pixels, testing::cut(whole, 90, region));
    EXPECT_THAT(decoder.complaint(), HasSubstr("no scans for its finest details"));
  }
}

TEST(JpegDecoder, AColourComponentInNoScanIsAFailure) {
  JpegDecoder decoder;
  JpegOptions options;
  options.separate_scans = true;
  const Bytes encoded = first_scans(make_jpeg(make_pixels(40, 40), options), 2);
  EXPECT_THAT(failure_of(decoder, encoded), HasSubstr("colour component 3 of 3 is in no scan"));
}

TEST(JpegDecoder, TooManyScansAreRefused) {
  JpegDecoder decoder;
  JpegOptions options;
  options.separate_scans = true;
  const Bytes encoded = make_jpeg(make_pixels(64, 64), options);
  std::size_t scan = 0;  // The last scan, from its SOS to the end marker.
  for (std::size_t i = 0; i + 1 < encoded.size(); ++i) {
    if (encoded[i] == std::byte{0xff} && encoded[i + 1] == std::byte{0xda}) scan = i;
  }
  const auto repeated = [&](int count) {
    Bytes flood(encoded.begin(), encoded.end() - 2);
    for (int i = 0; i < count; ++i) {
      flood.insert(flood.end(), encoded.begin() + static_cast<std::ptrdiff_t>(scan),
                   encoded.end() - 2);
    }
    flood.insert(flood.end(), encoded.end() - 2, encoded.end());
    return flood;
  };
  EXPECT_EQ(failure_of(decoder, repeated(JpegState::kMaxScans - 3)), "");
  EXPECT_THAT(failure_of(decoder, repeated(JpegState::kMaxScans - 2)),
              HasSubstr("more than 100 scans"));
}

TEST(JpegDecoder, CoefficientsAboveTheMemoryLimitAreRefused) {
  JpegDecoder decoder;
  JpegOptions options;
  options.progressive = true;
  const Bytes encoded = make_jpeg(make_pixels(256, 256), options);
  // 4:2:0: 1.5 samples a pixel, 2 bytes each.
  const std::uint64_t needed = 256 * 256 * 3;
  EXPECT_EQ(failure_of(decoder, encoded, {DecodeLimits::kDefaultMaxPixels, needed}), "");
  EXPECT_THAT(failure_of(decoder, encoded, {DecodeLimits::kDefaultMaxPixels, needed - 1}),
              HasSubstr("raise max_memory_bytes"));
}

TEST(JpegDecoder, CountsWhoDecodedEachPicture) {
  JpegDecoder decoder;
  JpegOptions progressive;
  progressive.progressive = true;
  const Bytes usual = make_jpeg(make_pixels(40, 40));
  EXPECT_EQ(failure_of(decoder, usual), "");
  EXPECT_EQ(decoder.counts().kind, nullptr);
  EXPECT_EQ(failure_of(decoder, make_jpeg(make_pixels(40, 40), progressive)), "");
  EXPECT_STREQ(decoder.counts().kind, "progressive");
  Bytes damaged = usual;  // Something is left over in front of the end marker.
  damaged.insert(damaged.end() - 2, {std::byte{0x12}, std::byte{0x34}});
  EXPECT_EQ(failure_of(decoder, damaged), "");
  EXPECT_EQ(decoder.counts().feedrace, 1U);
  EXPECT_EQ(decoder.counts().libjpeg_turbo, 1U);
  EXPECT_EQ(decoder.counts().damaged, 1U);
}

TEST(JpegDecoder, WhereLibjpegTurboShallDoAllThereIsNoReason) {
  JpegDecoder decoder(JpegEngine::kLibjpegTurbo);
  EXPECT_EQ(failure_of(decoder, make_jpeg(make_pixels(40, 40))), "");
  EXPECT_EQ(decoder.counts().feedrace, 0U);
  EXPECT_EQ(decoder.counts().libjpeg_turbo, 1U);
  EXPECT_EQ(decoder.counts().kind, nullptr);
}

TEST(JpegDecoder, MoreRowsThanTheRegionHasAreRefused) {
  JpegDecoder decoder;
  const Bytes encoded = make_jpeg(make_pixels(16, 16));
  ASSERT_TRUE(decoder.begin(encoded, {0, 0, 16, 4}, {}));
  std::vector<std::uint8_t> rows(16 * 3 * 8);
  EXPECT_TRUE(decoder.read_rows(rows.data(), 48, 3));
  Result<void> read = decoder.read_rows(rows.data(), 48, 2);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace feedrace::decode
