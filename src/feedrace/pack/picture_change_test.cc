// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/picture_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/decode/image_decoder.h"
#include "feedrace/decode/test_pictures.h"
#include "feedrace/ops/reference_resample.h"
#include "feedrace/pack/jpeg_output.h"
#include "feedrace/pack/picture_output.h"

namespace feedrace::pack {
namespace {

using decode::testing::Bytes;
using decode::testing::make_jpeg;
using decode::testing::make_npy;
using decode::testing::make_pixels;
using decode::testing::make_png;
using decode::testing::make_webp;
using decode::testing::Pixels;
using Resize = PictureChange::Resize;
using ::testing::HasSubstr;
using ::testing::Not;

std::string_view text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

ChangedPicture changed(const PictureChange& change, const Bytes& encoded,
                       std::string_view field = "jpg") {
  auto made = PictureChanger(change).change(text_of(encoded), field);
  if (made) return *std::move(made);
  ADD_FAILURE() << made.error().message;
  return {};
}

struct Decoded {
  decode::ImageInfo info;
  std::vector<std::uint8_t> rgb;
};

Decoded decoded(std::span<const std::byte> encoded, bool upright = false) {
  decode::ImageDecoder decoder({}, upright);
  const auto info = decoder.open(encoded);
  if (!info) {
    ADD_FAILURE() << info.error().message;
    return {};
  }
  Decoded made{*info, std::vector<std::uint8_t>(std::size_t{3} * info->width_px * info->height_px)};
  const auto read =
      decoder.read_region(info->whole(), made.rgb.data(), std::size_t{3} * info->width_px);
  if (!read) ADD_FAILURE() << read.error().message;
  return made;
}

Decoded decoded(const std::string& encoded, bool upright = false) {
  return decoded(std::as_bytes(std::span(encoded)), upright);
}

std::vector<std::uint8_t> resized(const Decoded& source, std::uint32_t width_px,
                                  std::uint32_t height_px) {
  const auto image =
      ops::reference::resize({source.rgb.data(), std::size_t{3} * source.info.width_px,
                              source.info.width_px, source.info.height_px},
                             {width_px, height_px});
  return image.rgb;
}

std::string refusal(const PictureChange& change, const Bytes& encoded,
                    const decode::DecodeLimits& limits = {}) {
  const auto made = PictureChanger(change, limits).change(text_of(encoded), "jpg");
  if (made) return "changed";
  EXPECT_THAT(made.error().message, Not(HasSubstr("\n")));
  return made.error().message;
}

TEST(PictureChange, NothingIsChangedUnasked) {
  EXPECT_FALSE(PictureChange().any());
  const Bytes any = decode::testing::bytes_of("no picture");
  const ChangedPicture same = changed({}, any, "x");
  EXPECT_EQ(same.bytes, text_of(any));
  EXPECT_EQ(same.field, "x");
  EXPECT_FALSE(same.is_changed);
}

TEST(PictureChange, RawPicturesAreTheResizedPixels) {
  const Bytes jpeg = make_jpeg(make_pixels(120, 90));
  const Decoded source = decoded(jpeg);
  const std::vector<std::uint8_t> expected = resized(source, 64, 48);
  for (const auto compression :
       {RawCompression::kNone, RawCompression::kLz4, RawCompression::kZstd}) {
    const ChangedPicture made =
        changed({.resize = Resize::kShortest, .side_px = 48, .raw = RawOptions{compression}}, jpeg);
    EXPECT_TRUE(made.is_changed);
    const Decoded is = decoded(made.bytes);
    EXPECT_STREQ(is.info.format, "npy");
    EXPECT_EQ(is.info.width_px, 64U);
    EXPECT_EQ(is.info.height_px, 48U);
    EXPECT_EQ(is.rgb, expected) << to_string(compression);
    if (compression == RawCompression::kNone) {
      EXPECT_EQ(made.bytes, text_of(make_npy({64, 48, 3, expected})));
      EXPECT_EQ(made.field, "npy");
    } else {
      EXPECT_EQ(made.field, compression == RawCompression::kLz4 ? "npy.lz4" : "npy.zst");
    }
  }
}

TEST(PictureChange, ALongerSideRulesToo) {
  const Bytes jpeg = make_jpeg(make_pixels(120, 90));
  const ChangedPicture made =
      changed({.resize = Resize::kLongest, .side_px = 60, .raw = RawOptions{}}, jpeg);
  EXPECT_EQ(decoded(made.bytes).rgb, resized(decoded(jpeg), 60, 45));
}

TEST(PictureChange, NothingIsEnlarged) {
  const Bytes jpeg = make_jpeg(make_pixels(40, 30));
  for (const Resize resize : {Resize::kShortest, Resize::kLongest}) {
    const ChangedPicture same = changed({.resize = resize, .side_px = 256}, jpeg);
    EXPECT_FALSE(same.is_changed);
    EXPECT_EQ(same.bytes, text_of(jpeg));
    const ChangedPicture raw =
        changed({.resize = resize, .side_px = 256, .raw = RawOptions{}}, jpeg);
    EXPECT_EQ(decoded(raw.bytes).rgb, decoded(jpeg).rgb);
  }
}

TEST(PictureChange, RawPicturesStandUpright) {
  for (std::uint8_t orientation = 2; orientation <= 8; ++orientation) {
    const Bytes jpeg =
        decode::testing::with_orientation(make_jpeg(make_pixels(50, 40)), orientation);
    const ChangedPicture made = changed({.raw = RawOptions{}}, jpeg);
    const Decoded upright = decoded(std::span<const std::byte>(jpeg), true);
    EXPECT_EQ(decoded(made.bytes).rgb, upright.rgb) << int{orientation};
  }
}

TEST(PictureChange, AJpegIsResizedAsStoredAndKeepsItsTag) {
  const Bytes jpeg = decode::testing::with_orientation(make_jpeg(make_pixels(120, 90)), 6);
  const ChangedPicture made =
      changed({.resize = Resize::kShortest, .side_px = 45, .jpeg_quality = 95}, jpeg, "jpeg");
  EXPECT_TRUE(made.is_changed);
  EXPECT_EQ(made.field, "jpeg");
  const Decoded is = decoded(made.bytes);
  EXPECT_EQ(is.info.orientation, 6);
  EXPECT_EQ(is.info.width_px, 60U);
  // Nothing but what the encoder itself changes.
  const std::vector<std::uint8_t> wanted = resized(decoded(jpeg), 60, 45);
  const auto direct = encode_jpeg({wanted.data(), 60, 45, 3}, 95, 0, {});
  ASSERT_TRUE(direct);
  EXPECT_EQ(is.rgb, decoded(*direct).rgb);
}

TEST(PictureChange, AnEncodedPictureIsBaseline420) {
  const ChangedPicture made =
      changed({.jpeg_quality = 80, .restart_rows = 1},
              make_jpeg(make_pixels(64, 64), {.luma_sampling = {1, 1}, .progressive = true}));
  EXPECT_THAT(made.bytes, HasSubstr(std::string("\xff\xc0\x00\x11\x08\x00\x40\x00\x40\x03\x01\x22"
                                                "\x00\x02\x11\x01\x03\x11\x01",
                                                19)));
  EXPECT_THAT(made.bytes, HasSubstr(std::string("\xff\xdd\x00\x04\x00\x04", 6)));
}

TEST(PictureChange, ProfilesComeAlongButNotThoseOfInk) {
  using std::string_view_literals::operator""sv;
  const auto with_profile = [](const Bytes& jpeg) {
    Bytes out(jpeg.begin(), jpeg.begin() + 2);
    const Bytes segment = decode::testing::bytes_of("\xff\xe2\x00\x14ICC_PROFILE\0\1\1rest"sv);
    out.insert(out.end(), segment.begin(), segment.end());
    out.insert(out.end(), jpeg.begin() + 2, jpeg.end());
    return out;
  };
  const PictureChange change{.jpeg_quality = 90};
  const ChangedPicture made = changed(change, with_profile(make_jpeg(make_pixels(32, 32))));
  EXPECT_THAT(made.bytes, HasSubstr("ICC_PROFILE"));
  const ChangedPicture ink =
      changed(change, with_profile(make_jpeg(make_pixels(32, 32, 4), {.stored_as = JCS_CMYK})));
  EXPECT_THAT(ink.bytes, Not(HasSubstr("ICC_PROFILE")));
  EXPECT_EQ(decoded(ink.bytes).info.component_count, 3U);
}

TEST(PictureChange, GreyStaysGrey) {
  const PictureChange smaller{.resize = Resize::kShortest, .side_px = 20};
  const Bytes jpeg = make_jpeg(make_pixels(60, 40, 1), {.stored_as = JCS_GRAYSCALE});
  EXPECT_EQ(decoded(changed(smaller, jpeg).bytes).info.component_count, 1U);
  for (const std::uint32_t channel_count : {1U, 2U}) {
    const Bytes png = make_png(make_pixels(60, 40, channel_count));
    const Decoded made = decoded(changed(smaller, png, "png").bytes);
    EXPECT_EQ(made.info.component_count, 1U);
    EXPECT_EQ(made.rgb, resized(decoded(png), 30, 20));
  }
}

TEST(PictureChange, OtherFormatsBecomeJpegOnlyWhenAskedTo) {
  const Pixels pixels = make_pixels(60, 40);
  const PictureChange smaller{.resize = Resize::kShortest, .side_px = 20};
  const ChangedPicture png = changed(smaller, make_png(pixels), "left.png");
  EXPECT_EQ(png.field, "left.png");
  EXPECT_STREQ(decoded(png.bytes).info.format, "png");
  EXPECT_EQ(decoded(png.bytes).rgb, resized(decoded(make_png(pixels)), 30, 20));
  const ChangedPicture webp = changed(smaller, make_webp(pixels, true), "webp");
  EXPECT_EQ(decoded(webp.bytes).rgb, resized(decoded(make_webp(pixels, true)), 30, 20));
  EXPECT_STREQ(decoded(changed(smaller, make_webp(pixels), "webp").bytes).info.format, "webp");
  const ChangedPicture array = changed(smaller, decode::testing::squeeze_zstd(make_npy(pixels)));
  EXPECT_EQ(array.field, "npy.zst");
  EXPECT_EQ(decoded(array.bytes).rgb, resized(decoded(make_npy(pixels)), 30, 20));

  PictureChange encoded = smaller;
  encoded.jpeg_quality = 90;
  const ChangedPicture jpeg = changed(encoded, make_png(pixels), "left.png");
  EXPECT_EQ(jpeg.field, "left.jpg");
  EXPECT_STREQ(decoded(jpeg.bytes).info.format, "jpeg");
  EXPECT_EQ(changed({.raw = RawOptions{}}, make_png(pixels), "left.png").field, "left.npy");
  // Lossless ways to write a JPEG are none of theirs.
  EXPECT_FALSE(changed({.baseline = true}, make_png(pixels), "png").is_changed);
}

TEST(PictureChange, LosslessWaysKeepThePixels) {
  const Bytes jpeg = make_jpeg(make_pixels(100, 80), {.progressive = true});
  const ChangedPicture made = changed({.baseline = true, .restart_rows = 1}, jpeg);
  EXPECT_TRUE(made.is_changed);
  EXPECT_EQ(decoded(made.bytes).rgb, decoded(jpeg).rgb);
  EXPECT_THAT(made.bytes, HasSubstr("\xff\xdd"));
}

TEST(PictureChange, TheSameBytesGiveTheSameBytes) {
  const Bytes jpeg = make_jpeg(make_pixels(90, 70, 3, 5), {.progressive = true});
  const Bytes other = make_jpeg(make_pixels(300, 200, 3, 6));
  for (const PictureChange& change :
       {PictureChange{.resize = Resize::kShortest, .side_px = 32},
        PictureChange{.jpeg_quality = 70}, PictureChange{.baseline = true},
        PictureChange{.raw = RawOptions{RawCompression::kLz4}},
        PictureChange{.raw = RawOptions{RawCompression::kZstd}}}) {
    PictureChanger used(change);
    ASSERT_TRUE(used.change(text_of(other), "jpg"));
    EXPECT_EQ(used.change(text_of(jpeg), "jpg")->bytes, changed(change, jpeg).bytes);
  }
}

TEST(PictureChange, DamagedPicturesAreRefused) {
  const Bytes jpeg = make_jpeg(make_pixels(90, 70));
  const Bytes half(jpeg.begin(), jpeg.begin() + static_cast<std::ptrdiff_t>(jpeg.size() / 2));
  const Bytes endless(jpeg.begin(), jpeg.end() - 2);  // Decoders only complain.
  for (const PictureChange& change :
       {PictureChange{.resize = Resize::kShortest, .side_px = 32},
        PictureChange{.jpeg_quality = 70}, PictureChange{.restart_rows = 1},
        PictureChange{.raw = RawOptions{}}}) {
    EXPECT_EQ(refusal(change, jpeg), "changed");
    EXPECT_THAT(refusal(change, half), HasSubstr("restore the file"));
    EXPECT_THAT(refusal(change, endless), HasSubstr("not to be written anew"));
    EXPECT_NE(refusal(change, decode::testing::bytes_of("<html>no picture</html>")), "changed");
  }
}

TEST(PictureChange, LimitsHold) {
  const Bytes jpeg = make_jpeg(make_pixels(300, 200));
  EXPECT_THAT(refusal({.raw = RawOptions{}}, jpeg, {59'999, 1U << 30}), HasSubstr("max_pixels"));
  EXPECT_THAT(refusal({.raw = RawOptions{}}, jpeg, {60'000, 100'000}),
              HasSubstr("above the limit of"));
}

TEST(PictureChange, OptionsThatMakeNoSenseAreRefused) {
  const auto refused = [](const PictureChange& change) -> std::string {
    try {
      const PictureChanger changer(change);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "taken";
  };
  EXPECT_THAT(refused({.resize = Resize::kShortest}), HasSubstr("a side of 0 px"));
  EXPECT_THAT(refused({.jpeg_quality = 101}), HasSubstr("a JPEG quality of 101"));
  EXPECT_THAT(refused({.restart_rows = 70'000}), HasSubstr("every 70000 rows"));
  EXPECT_THAT(refused({.baseline = true, .raw = RawOptions{}}), HasSubstr("are no JPEG"));
  EXPECT_EQ(raw_compression("zstd"), RawCompression::kZstd);
  EXPECT_FALSE(raw_compression("gzip"));
}

}  // namespace
}  // namespace feedrace::pack
