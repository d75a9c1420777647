// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/image_format.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace::decode {
namespace {

using std::string_literals::operator""s;
using ::testing::HasSubstr;

ImageFormat format_of(const std::string& content) {
  return detect_format(std::as_bytes(std::span(content)));
}

Failure failure_for(const std::string& content) {
  return unreadable(std::as_bytes(std::span(content)));
}

TEST(ImageFormat, ContentDecides) {
  EXPECT_EQ(format_of("\xff\xd8\xff\xe0"), ImageFormat::kJpeg);
  EXPECT_EQ(format_of("\x89PNG\r\n\x1a\n"), ImageFormat::kPng);
  EXPECT_EQ(format_of("RIFF\1\0\0\0WEBPVP8 "s), ImageFormat::kWebp);
  EXPECT_EQ(format_of("RIFF\1\0\0\0WAVEfmt "s), ImageFormat::kUnknown);
  EXPECT_EQ(format_of("GIF89a...."), ImageFormat::kGif);
  EXPECT_EQ(format_of("BM\x36\0\0\0\0\0"s), ImageFormat::kBmp);
  EXPECT_EQ(format_of("MM\0*\0\0\0\x08"s), ImageFormat::kTiff);
  EXPECT_EQ(format_of("\0\0\0\x1c"s + "ftypavif"), ImageFormat::kAvif);
  EXPECT_EQ(format_of("\0\0\0\x1c"s + "ftypheic"), ImageFormat::kHeif);
  EXPECT_EQ(format_of("\0\0\0\x1c"s + "ftypmp42"), ImageFormat::kUnknown);
  EXPECT_EQ(format_of("\0\0\0\x0cjP  \r\n"s), ImageFormat::kJpeg2000);
}

TEST(ImageFormat, TextsAreToldApart) {
  EXPECT_EQ(format_of("\xef\xbb\xbf <?xml version='1.0'?><SVG xmlns=''>"), ImageFormat::kSvg);
  EXPECT_EQ(format_of("\n<!DOCTYPE html><title>404</title>"), ImageFormat::kHtml);
  EXPECT_EQ(format_of("<rss></rss>"), ImageFormat::kXml);
  EXPECT_EQ(format_of("version https://git-lfs.github.com/spec/v1\n"), ImageFormat::kLfsPointer);
  EXPECT_EQ(format_of("just a note"), ImageFormat::kText);
  EXPECT_EQ(format_of(std::string(100, '\0')), ImageFormat::kZeros);
  EXPECT_EQ(format_of(""), ImageFormat::kEmpty);
}

TEST(ImageFormat, MessagesSayWhatWasFoundAndWhatToDo) {
  EXPECT_EQ(failure_for("GIF89a....").message,
            "unsupported format: a GIF picture; convert the picture to JPEG, PNG or WebP");
  EXPECT_EQ(failure_for("GIF89a....").code, ErrorCode::kUnsupported);
  EXPECT_EQ(failure_for("").message,
            "an empty file, 0 bytes; restore the file from its source or leave it out");
  EXPECT_EQ(failure_for("\xff").message,
            "truncated: only 1 byte (ff); restore the file from its source or leave it out");
  EXPECT_THAT(failure_for("version https://git-lfs.github.com/spec/v1\n").message,
              HasSubstr("git lfs pull"));
  EXPECT_THAT(failure_for("\x0a\xff\xd8\xff\xe0\0\x10JFIF"s).message,
              HasSubstr("not a picture of a known format: 11 bytes that begin with 0a ff d8"));
}

}  // namespace
}  // namespace feedrace::decode
