// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/picture_decoder.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

#include "feedrace/cuda/test_jpegs.h"
#include "feedrace/cuda/test_stubs.h"

namespace feedrace::cuda {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

constexpr std::uint32_t kWidthPx = 64;
constexpr std::uint32_t kHeightPx = 48;
constexpr std::size_t kImageBytes = std::size_t{3} * kWidthPx * kHeightPx;

/// A box of a picture, kept at its size.
Picture picture_of(const Bytes& jpeg, std::uint32_t width_px, std::uint32_t height_px,
                   const Region& box) {
  Picture picture;
  picture.encoded = jpeg;
  picture.width_px = width_px;
  picture.height_px = height_px;
  picture.geometry.box_x_px = box.x_px;
  picture.geometry.box_y_px = box.y_px;
  picture.geometry.box_width_px = box.width_px;
  picture.geometry.box_height_px = box.height_px;
  picture.geometry.full_width_px = box.width_px;
  picture.geometry.full_height_px = box.height_px;
  return picture;
}

Picture whole(const Bytes& jpeg) {
  return picture_of(jpeg, kWidthPx, kHeightPx, {0, 0, kWidthPx, kHeightPx});
}

/// The same box, of a picture that is decoded already.
Picture decoded_picture_of(const Bytes& pixels, const Region& box) {
  Picture picture = picture_of({}, 500, 400, box);
  picture.pixels = pixels;
  return picture;
}

Bytes some_pixels(std::size_t bytes, std::uint64_t seed) {
  Bytes pixels(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    pixels[i] = static_cast<std::byte>((i * 31 + i / 7 + seed * 101) % 256);
  }
  return pixels;
}

std::vector<std::uint8_t> values_of(const Bytes& pixels) {
  std::vector<std::uint8_t> values;
  for (const std::byte pixel : pixels) values.push_back(std::to_integer<std::uint8_t>(pixel));
  return values;
}

/// 8-bit pixels as they are, so that a batch shows what was decoded.
PictureDecoder::Options options_of(double share) {
  PictureDecoder::Options options{8, share, {}};
  options.output.width_px = kWidthPx;
  options.output.height_px = kHeightPx;
  options.output.dtype = FEEDRACE_CUDA_UINT8;
  options.output.is_hwc = 1;
  for (float& value : options.output.std) value = 1;
  return options;
}

class PictureDecoderTest : public OnStubs {
 protected:
  using Images = std::vector<std::vector<std::uint8_t>>;

  /// What the pass makes of each place; nothing when nothing was decoded.
  static Images run(const std::shared_ptr<Device>& opened, PictureDecoder& decoder,
                    std::vector<Picture>& pictures) {
    const auto decoded = decoder.decode(pictures);
    if (!decoded) return {};
    const DeviceMemory batch(opened, pictures.size() * kImageBytes);
    Stream stream(opened);
    decoder.pass(*decoded, batch.address(), stream);
    Images images(pictures.size());
    for (std::size_t i = 0; i < images.size(); ++i) {
      images[i].resize(kImageBytes);
      stream.copy_to_host(images[i].data(), batch.address() + i * kImageBytes, kImageBytes);
    }
    Event done(opened);
    done.record(stream.handle());
    done.wait();
    return images;
  }
};

TEST_F(PictureDecoderTest, EachPlaceHasItsPictureAndOthersAreLeft) {
  feedrace_stub_set_delay_us(200);
  const auto opened = device();
  std::vector<Bytes> jpegs;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    jpegs.push_back(baseline(kWidthPx, kHeightPx, seed));
  }
  Bytes damaged = jpegs[0];
  damaged.resize(damaged.size() / 2);
  for (const double share : {0.0, 0.5, 1.0}) {
    PictureDecoder decoder(opened, options_of(share));
    for (int round = 0; round < 4; ++round) {
      std::vector<Picture> pictures = {Picture{}, whole(damaged)};
      for (const Bytes& jpeg : jpegs) pictures.push_back(whole(jpeg));
      const Images images = run(opened, decoder, pictures);
      ASSERT_EQ(images.size(), pictures.size());
      EXPECT_EQ(pictures[0].source, PixelSource::kNone);
      EXPECT_EQ(pictures[1].source, PixelSource::kNone);
      for (std::size_t i = 0; i < jpegs.size(); ++i) {
        EXPECT_NE(pictures[i + 2].source, PixelSource::kNone);
        EXPECT_TRUE(images[i + 2] == decode_on_cpu(jpegs[i]).rgb) << "picture " << i;
      }
      const auto in_hardware = std::count_if(
          pictures.begin(), pictures.end(),
          [](const Picture& picture) { return picture.source == PixelSource::kHardware; });
      EXPECT_EQ(in_hardware > 0, share > 0);
    }
  }
}

TEST_F(PictureDecoderTest, ABoxIsTheSameWhetherTheRestIsDecodedOrNot) {
  const auto opened = device();
  const Bytes jpeg = baseline(200, 150, 3);
  const Region box{101, 67, kWidthPx, kHeightPx};
  const Image all = decode_on_cpu(jpeg);
  for (const double share : {0.0, 1.0}) {
    PictureDecoder decoder(opened, options_of(share));
    std::vector<Picture> pictures = {picture_of(jpeg, 200, 150, box)};
    const Images images = run(opened, decoder, pictures);
    ASSERT_EQ(images.size(), 1U);
    EXPECT_TRUE(images[0] == decode::testing::cut(all.rgb, all.width_px, box)) << share;
  }
}

TEST_F(PictureDecoderTest, WhatTheEngineBeginsAndDoesNotEndIsNotDecoded) {
  feedrace_stub_set_delay_us(200);
  const auto opened = device();
  const Bytes good = baseline(kWidthPx, kHeightPx, 1);
  Bytes damaged = baseline(kWidthPx, kHeightPx, 2);
  // More codes than there can be in its first Huffman table: header and markers are those of a good
  // one.
  const std::array<std::byte, 2> table = {std::byte{0xFF}, std::byte{0xC4}};
  const auto at = std::search(damaged.begin(), damaged.end(), table.begin(), table.end());
  ASSERT_NE(at, damaged.end());
  at[5] = std::byte{0xFF};
  PictureDecoder decoder(opened, options_of(1));
  for (int round = 0; round < 6; ++round) {  // In memory that pictures were in before.
    std::vector<Picture> pictures = {whole(good), whole(damaged), whole(good)};
    const Images images = run(opened, decoder, pictures);
    ASSERT_EQ(images.size(), 3U);
    EXPECT_EQ(pictures[0].source, PixelSource::kHardware);
    EXPECT_EQ(pictures[1].source, PixelSource::kNone);
    EXPECT_EQ(pictures[2].source, PixelSource::kHardware);
    EXPECT_TRUE(images[0] == decode_on_cpu(good).rgb);
    EXPECT_TRUE(images[2] == images[0]);
  }
}

TEST_F(PictureDecoderTest, DecodedPicturesStandBesideJpegs) {
  feedrace_stub_set_delay_us(200);
  const auto opened = device();
  const Bytes jpeg = baseline(200, 150, 3);
  const Region box{101, 67, kWidthPx, kHeightPx};
  const Image all = decode_on_cpu(jpeg);
  const Bytes one = some_pixels(kImageBytes, 1);
  const Bytes other = some_pixels(kImageBytes, 2);
  for (const double share : {0.0, 1.0}) {
    PictureDecoder decoder(opened, options_of(share));
    for (int round = 0; round < 4; ++round) {
      std::vector<Picture> pictures = {decoded_picture_of(one, box),
                                       picture_of(jpeg, 200, 150, box), Picture{},
                                       decoded_picture_of(other, box)};
      const Images images = run(opened, decoder, pictures);
      ASSERT_EQ(images.size(), 4U);
      EXPECT_EQ(pictures[0].source, PixelSource::kCopy);
      EXPECT_EQ(pictures[1].source, share > 0 ? PixelSource::kHardware : PixelSource::kSoftware);
      EXPECT_EQ(pictures[2].source, PixelSource::kNone);
      EXPECT_EQ(pictures[3].source, PixelSource::kCopy);
      EXPECT_TRUE(images[0] == values_of(one));
      EXPECT_TRUE(images[1] == decode::testing::cut(all.rgb, all.width_px, box));
      EXPECT_TRUE(images[3] == values_of(other));
    }
  }
}

TEST_F(PictureDecoderTest, DecodedPicturesNeedNoNvjpeg) {
  feedrace_stub_fail("nvjpegCreateExV2", 0, 1);
  const auto opened = device();
  const Bytes jpeg = baseline(kWidthPx, kHeightPx, 1);
  const Bytes pixels = some_pixels(kImageBytes, 1);
  PictureDecoder::Options options = options_of(0.65);
  EXPECT_THROW(PictureDecoder(opened, options), Error);
  options.decodes_jpeg = false;
  PictureDecoder decoder(opened, options);
  EXPECT_FALSE(decoder.decodes_jpeg());
  std::vector<Picture> pictures = {whole(jpeg),
                                   decoded_picture_of(pixels, {9, 9, kWidthPx, kHeightPx})};
  const Images images = run(opened, decoder, pictures);
  ASSERT_EQ(images.size(), 2U);
  EXPECT_EQ(pictures[0].source, PixelSource::kNone);
  EXPECT_EQ(pictures[1].source, PixelSource::kCopy);
  EXPECT_TRUE(images[1] == values_of(pixels));
  std::vector<Picture> jpegs = {whole(jpeg)};
  EXPECT_EQ(decoder.decode(jpegs), nullptr);
  EXPECT_EQ(jpegs[0].source, PixelSource::kNone);
}

TEST_F(PictureDecoderTest, OfNothingIsNothing) {
  const auto opened = device();
  PictureDecoder decoder(opened, options_of(0.65));
  std::vector<Picture> none(3);
  EXPECT_EQ(decoder.decode(none), nullptr);
  const Bytes text(100, std::byte{'x'});
  std::vector<Picture> bad = {whole(text)};
  EXPECT_EQ(decoder.decode(bad), nullptr);
  EXPECT_EQ(bad[0].source, PixelSource::kNone);
}

TEST_F(PictureDecoderTest, TheEngineGetsRoomForLargerPicturesWhereThereIsMemory) {
  const auto opened = device();
  const Bytes wide = baseline(1500, kHeightPx, 1);
  const Region box{700, 0, kWidthPx, kHeightPx};
  const Image all = decode_on_cpu(wide);
  for (const bool is_full : {false, true}) {
    PictureDecoder decoder(opened, options_of(1));
    if (is_full) feedrace_stub_fail("nvjpegDecodeBatchedPreAllocate", 1, 5);
    std::vector<Picture> pictures = {picture_of(wide, 1500, kHeightPx, box)};
    const Images images = run(opened, decoder, pictures);
    ASSERT_EQ(images.size(), 1U);
    EXPECT_TRUE(images[0] == decode::testing::cut(all.rgb, all.width_px, box));
    EXPECT_EQ(pictures[0].source, is_full ? PixelSource::kSoftware : PixelSource::kHardware);
    feedrace_stub_reset();
  }
}

TEST_F(PictureDecoderTest, WhatItGaveMayOutliveIt) {
  const auto opened = device();
  const Bytes jpeg = baseline(kWidthPx, kHeightPx, 1);
  std::vector<Picture> pictures = {whole(jpeg)};
  std::shared_ptr<PictureDecoder::Decoded> kept;
  {
    PictureDecoder decoder(opened, options_of(0.65));
    kept = decoder.decode(pictures);
    ASSERT_NE(kept, nullptr);
  }
  kept.reset();
}

TEST_F(PictureDecoderTest, EveryCallMayFailAndNothingIsLost) {
  const Bytes jpeg = baseline(kWidthPx, kHeightPx, 1);
  const Bytes pixels = some_pixels(kImageBytes, 1);
  const std::vector<std::vector<std::uint8_t>> expected = {
      decode_on_cpu(jpeg).rgb, {}, decode_on_cpu(jpeg).rgb, values_of(pixels)};
  for (const char* call : {"cuMemAlloc_v2", "cuMemHostRegister_v2", "cuEventRecord",
                           "cuEventSynchronize", "cuStreamWaitEvent", "cuLaunchKernel",
                           "cuStreamCreateWithPriority", "cuEventCreate", "cuMemcpyHtoDAsync_v2",
                           "nvjpegCreateExV2", "nvjpegDecodeBatchedEx", "nvjpegDecodeJpegDevice"}) {
    for (int nth = 1; nth <= 8; ++nth) {
      const auto opened = device();
      feedrace_stub_fail(call, nth, 2);
      try {
        PictureDecoder decoder(opened, options_of(0.5));
        for (int round = 0; round < 2; ++round) {
          std::vector<Picture> pictures = {whole(jpeg), Picture{}, whole(jpeg),
                                           decoded_picture_of(pixels, {0, 0, kWidthPx, kHeightPx})};
          const Images images = run(opened, decoder, pictures);
          for (std::size_t i = 0; i < images.size(); ++i) {
            const bool is_decoded = pictures[i].source != PixelSource::kNone;
            EXPECT_TRUE(!is_decoded || images[i] == expected[i]) << call << " " << nth;
          }
        }
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), AnyOf(HasSubstr("error 2"), HasSubstr("status 2"))) << call;
      }
      feedrace_stub_reset();
    }
  }
}

}  // namespace
}  // namespace feedrace::cuda
