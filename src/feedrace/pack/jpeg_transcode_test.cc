// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/jpeg_transcode.h"

#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/decode/jpeg_state.h"
#include "feedrace/decode/test_pictures.h"

namespace feedrace::pack {
namespace {

using decode::testing::Bytes;
using decode::testing::bytes_of;
using decode::testing::JpegOptions;
using decode::testing::make_jpeg;
using decode::testing::make_pixels;
using ::testing::HasSubstr;

/// What is in a JPEG besides the way in which its coefficients are coded.
struct Content {
  std::vector<JCOEF> coefficients;
  std::vector<std::vector<std::uint8_t>> segments;
  std::vector<UINT16> quantisers;
  bool is_progressive = false;
  bool is_arithmetic = false;
  unsigned restart_interval = 0;
  int scans = 0;
};

void take_component(jpeg_decompress_struct& cinfo, jvirt_barray_ptr array, int number,
                    Content& content) {
  const jpeg_component_info& component = cinfo.comp_info[number];
  for (JDIMENSION y = 0; y < component.height_in_blocks; ++y) {
    JBLOCKARRAY rows = (*cinfo.mem->access_virt_barray)(reinterpret_cast<j_common_ptr>(&cinfo),
                                                        array, y, 1, FALSE);
    const JCOEF* begin = rows[0][0];
    content.coefficients.insert(content.coefficients.end(), begin,
                                begin + std::size_t{component.width_in_blocks} * DCTSIZE2);
  }
  const UINT16* steps = component.quant_table->quantval;
  content.quantisers.insert(content.quantisers.end(), steps, steps + DCTSIZE2);
}

Content content_of(std::span<const std::byte> encoded) {
  Content content;
  decode::JpegState state;
  EXPECT_TRUE(state.open(encoded));
  jvirt_barray_ptr* arrays = nullptr;
  const bool is_read = state.guarded([&arrays](jpeg_decompress_struct& cinfo) {
    jpeg_save_markers(&cinfo, JPEG_COM, 0xffff);
    for (int i = 0; i < 16; ++i) jpeg_save_markers(&cinfo, JPEG_APP0 + i, 0xffff);
    jpeg_read_header(&cinfo, TRUE);
    arrays = jpeg_read_coefficients(&cinfo);
  });
  if (!is_read) {
    ADD_FAILURE() << state.failure().message;
    return content;
  }
  jpeg_decompress_struct& cinfo = state.cinfo();
  for (int i = 0; i < cinfo.num_components; ++i) take_component(cinfo, arrays[i], i, content);
  for (jpeg_saved_marker_ptr one = cinfo.marker_list; one != nullptr; one = one->next) {
    std::vector<std::uint8_t>& segment = content.segments.emplace_back();
    segment.push_back(one->marker);
    segment.insert(segment.end(), one->data, one->data + one->data_length);
  }
  content.is_progressive = cinfo.progressive_mode != FALSE;
  content.is_arithmetic = cinfo.arith_code != FALSE;
  content.restart_interval = cinfo.restart_interval;
  content.scans = cinfo.input_scan_number;
  return content;
}

std::span<const std::byte> span_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

void expect_same_picture(const Content& was, const Content& is) {
  EXPECT_EQ(was.coefficients, is.coefficients);
  EXPECT_EQ(was.quantisers, is.quantisers);
  EXPECT_EQ(was.segments, is.segments);
}

Bytes with_segments(const Bytes& jpeg) {
  using std::string_view_literals::operator""sv;
  Bytes out(jpeg.begin(), jpeg.begin() + 2);
  for (const auto text : {"\xff\xfe\x00\x09"
                          "comment"sv,
                          "\xff\xed\x00\x06IPTC"sv, "\xff\xe2\x00\x0eICC_PROFILE\0"sv}) {
    const Bytes segment = bytes_of(text);
    out.insert(out.end(), segment.begin(), segment.end());
  }
  out.insert(out.end(), jpeg.begin() + 2, jpeg.end());
  return decode::testing::with_orientation(out, 6);
}

class JpegKinds : public ::testing::TestWithParam<JpegOptions> {};

TEST_P(JpegKinds, BecomeOneBaselineScanOfTheSameCoefficients) {
  const bool is_cmyk = GetParam().stored_as == JCS_YCCK;
  const Bytes jpeg = with_segments(make_jpeg(make_pixels(83, 61, is_cmyk ? 4 : 3), GetParam()));
  const auto made = transcode_jpeg(jpeg, {true, 0}, {});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(made->has_value());
  const Content was = content_of(jpeg);
  const Content is = content_of(span_of(**made));
  expect_same_picture(was, is);
  EXPECT_EQ(is.segments.size(), was.segments.size());
  EXPECT_GE(is.segments.size(), 4U);
  EXPECT_FALSE(is.is_progressive);
  EXPECT_FALSE(is.is_arithmetic);
  EXPECT_EQ(is.scans, 1);
  EXPECT_EQ(is.restart_interval, was.restart_interval);
  // Done once, there is nothing left to do; and the same bytes come again.
  const auto again = transcode_jpeg(span_of(**made), {true, 0}, {});
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_FALSE(again->has_value());
  EXPECT_EQ(*transcode_jpeg(jpeg, {true, 0}, {}), *made);
}

TEST_P(JpegKinds, GetRestartMarkersAndKeepTheirKind) {
  const bool is_cmyk = GetParam().stored_as == JCS_YCCK;
  const Bytes jpeg = with_segments(make_jpeg(make_pixels(83, 61, is_cmyk ? 4 : 3), GetParam()));
  const auto made = transcode_jpeg(jpeg, {false, 2}, {});
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(made->has_value());
  const Content was = content_of(jpeg);
  const Content is = content_of(span_of(**made));
  expect_same_picture(was, is);
  EXPECT_EQ(is.is_progressive, was.is_progressive);
  EXPECT_EQ(is.is_arithmetic, was.is_arithmetic);
  EXPECT_NE(is.restart_interval, was.restart_interval);
}

INSTANTIATE_TEST_SUITE_P(
    EveryKind, JpegKinds,
    ::testing::Values(
        JpegOptions{.progressive = true}, JpegOptions{.luma_sampling = {2, 1}, .progressive = true},
        JpegOptions{.luma_sampling = {1, 1}, .progressive = true}, JpegOptions{.arithmetic = true},
        JpegOptions{.progressive = true, .arithmetic = true}, JpegOptions{.separate_scans = true},
        JpegOptions{.progressive = true, .restart_blocks = 5},
        JpegOptions{.progressive = true, .stored_as = JCS_RGB},
        JpegOptions{.progressive = true, .stored_as = JCS_YCCK}));

TEST(JpegTranscode, ABaselinePictureStaysAndGetsRestartMarkersOnce) {
  const Bytes jpeg = make_jpeg(make_pixels(100, 64));
  const auto same = transcode_jpeg(jpeg, {true, 0}, {});
  ASSERT_TRUE(same) << same.error().message;
  EXPECT_FALSE(same->has_value());
  const auto made = transcode_jpeg(jpeg, {true, 1}, {});
  ASSERT_TRUE(made && made->has_value());
  const Content is = content_of(span_of(**made));
  EXPECT_EQ(is.restart_interval, 7U);  // MCUs of 16 pixels.
  expect_same_picture(content_of(jpeg), is);
  EXPECT_FALSE(transcode_jpeg(span_of(**made), {true, 1}, {})->has_value());
  EXPECT_TRUE(transcode_jpeg(span_of(**made), {true, 2}, {})->has_value());
}

TEST(JpegTranscode, GreyKeepsItsBlocks) {
  const Bytes jpeg =
      make_jpeg(make_pixels(45, 30, 1), {.progressive = true, .stored_as = JCS_GRAYSCALE});
  const auto made = transcode_jpeg(jpeg, {true, 1}, {});
  ASSERT_TRUE(made && made->has_value());
  expect_same_picture(content_of(jpeg), content_of(span_of(**made)));
  EXPECT_FALSE(transcode_jpeg(span_of(**made), {true, 1}, {})->has_value());
}

std::string refusal(std::span<const std::byte> encoded, const decode::DecodeLimits& limits = {}) {
  const auto made = transcode_jpeg(encoded, {true, 4}, limits);
  if (made) return "written";
  EXPECT_EQ(made.error().code, ErrorCode::kCorruptData);
  EXPECT_EQ(made.error().message.find('\n'), std::string::npos);
  return made.error().message;
}

TEST(JpegTranscode, EveryCutIsRefused) {
  for (const bool is_progressive : {false, true}) {
    const Bytes jpeg = make_jpeg(make_pixels(40, 40), {.progressive = is_progressive});
    ASSERT_EQ(refusal(jpeg), "written");
    for (std::size_t size = 2; size < jpeg.size(); ++size) {
      ASSERT_NE(refusal(std::span(jpeg).first(size)), "written") << size;
    }
  }
}

TEST(JpegTranscode, MissingScansAreRefused) {
  Bytes jpeg = make_jpeg(make_pixels(40, 40), {.progressive = true});
  // Cut in front of the last scan, ended properly.
  const std::array<std::byte, 2> scan = {std::byte{0xff}, std::byte{0xda}};
  const auto last = std::find_end(jpeg.begin(), jpeg.end(), scan.begin(), scan.end());
  jpeg.erase(last, jpeg.end());
  // Its tables go with it.
  const Bytes end = bytes_of("\xff\xd9");
  jpeg.insert(jpeg.end(), end.begin(), end.end());
  EXPECT_THAT(refusal(jpeg), HasSubstr("the last scans of colour component"));
}

TEST(JpegTranscode, LimitsHoldBeforeMemoryIsTaken) {
  const Bytes jpeg = make_jpeg(make_pixels(640, 480), {.progressive = true});
  EXPECT_THAT(refusal(jpeg, {1000, 1U << 30}), HasSubstr("640 x 480 pixels are above the limit"));
  EXPECT_THAT(refusal(jpeg, {1'000'000, 500'000}), HasSubstr("decoding needs 921.6 kB"));
}

TEST(JpegTranscode, WhatIsNoJpegIsRefused) {
  EXPECT_NE(refusal(bytes_of("no picture at all")), "written");
  EXPECT_NE(refusal({}), "written");
}

}  // namespace
}  // namespace feedrace::pack
