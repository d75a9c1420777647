// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/image_format.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/decode/bytes.h"
#include "feedrace/decode/messages.h"

namespace feedrace::decode {
namespace {

using Bytes = std::span<const std::byte>;
using std::string_view_literals::operator""sv;

/// A shorter file is called truncated whatever it was: nothing to show, and no way to tell.
constexpr std::size_t kShortestBytes = 8;
/// How much of a file is looked at to tell text from other bytes.
constexpr std::size_t kTextSampleBytes = 512;

struct Magic {
  std::string_view bytes;
  ImageFormat format;
};

constexpr std::array kMagics = {
    Magic{"\xff\xd8"sv, ImageFormat::kJpeg},
    Magic{"\x89PNG\r\n\x1a\n"sv, ImageFormat::kPng},
    Magic{"GIF87a"sv, ImageFormat::kGif},
    Magic{"GIF89a"sv, ImageFormat::kGif},
    Magic{"BM"sv, ImageFormat::kBmp},
    Magic{"II*\0"sv, ImageFormat::kTiff},
    Magic{"MM\0*"sv, ImageFormat::kTiff},
    Magic{"II+\0"sv, ImageFormat::kTiff},
    Magic{"MM\0+"sv, ImageFormat::kTiff},
    Magic{"\xff\x0a"sv, ImageFormat::kJpegXl},
    Magic{"\0\0\0\x0cJXL "sv, ImageFormat::kJpegXl},
    Magic{"\0\0\0\x0cjP  "sv, ImageFormat::kJpeg2000},
    Magic{"\xff\x4f\xff\x51"sv, ImageFormat::kJpeg2000},
    Magic{"\0\0\1\0"sv, ImageFormat::kIcon},
    Magic{"8BPS"sv, ImageFormat::kPhotoshop},
    Magic{"%PDF"sv, ImageFormat::kPdf},
    Magic{"\0\5\x16\7"sv, ImageFormat::kAppleDouble},
    Magic{"PK\3\4"sv, ImageFormat::kArchive},
    Magic{"\x1f\x8b"sv, ImageFormat::kArchive},
    Magic{"version https://git-lfs"sv, ImageFormat::kLfsPointer},
};

/// The brand of an ISO base media file: AVIF and HEIF are such files.
ImageFormat media_format(Bytes encoded) noexcept {
  if (!holds(encoded, 4, "ftyp"sv)) return ImageFormat::kUnknown;
  if (holds(encoded, 8, "avif"sv) || holds(encoded, 8, "avis"sv)) return ImageFormat::kAvif;
  for (const std::string_view brand : {"heic"sv, "heix"sv, "hevc"sv, "mif1"sv, "msf1"sv}) {
    if (holds(encoded, 8, brand)) return ImageFormat::kHeif;
  }
  return ImageFormat::kUnknown;
}

char lower(std::byte byte) noexcept {
  const char c = static_cast<char>(byte);
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

ImageFormat markup_format(Bytes sample) noexcept {
  std::array<char, kTextSampleBytes> text{};
  std::transform(sample.begin(), sample.end(), text.begin(), lower);
  const std::string_view lowered(text.data(), sample.size());
  const std::size_t start = lowered.find_first_not_of(" \t\r\n\xef\xbb\xbf");
  if (start == std::string_view::npos || lowered[start] != '<') return ImageFormat::kText;
  if (lowered.find("<svg") != std::string_view::npos) return ImageFormat::kSvg;
  if (lowered.find("<html") != std::string_view::npos ||
      lowered.find("<!doctype html") != std::string_view::npos) {
    return ImageFormat::kHtml;
  }
  return ImageFormat::kXml;
}

bool is_text(std::byte byte) noexcept {
  const auto value = std::to_integer<unsigned>(byte);
  return value == '\t' || value == '\n' || value == '\r' || (value >= 0x20 && value != 0x7f);
}

bool is_zero(std::byte byte) noexcept { return byte == std::byte{0}; }

std::string_view description(ImageFormat format) noexcept {
  switch (format) {
    case ImageFormat::kGif:
      return "a GIF picture";
    case ImageFormat::kBmp:
      return "a BMP picture";
    case ImageFormat::kTiff:
      return "a TIFF picture";
    case ImageFormat::kAvif:
      return "an AVIF picture";
    case ImageFormat::kHeif:
      return "a HEIF (HEIC) picture";
    case ImageFormat::kJpegXl:
      return "a JPEG XL picture";
    case ImageFormat::kJpeg2000:
      return "a JPEG 2000 picture";
    case ImageFormat::kIcon:
      return "a Windows icon";
    case ImageFormat::kPhotoshop:
      return "a Photoshop document";
    case ImageFormat::kPdf:
      return "a PDF document";
    case ImageFormat::kSvg:
      return "an SVG drawing";
    case ImageFormat::kHtml:
      return "an HTML page, as a web server sends for a missing file";
    case ImageFormat::kXml:
      return "an XML text";
    case ImageFormat::kLfsPointer:
      return "a Git LFS pointer";
    case ImageFormat::kAppleDouble:
      return "an AppleDouble companion file (\"._name\")";
    case ImageFormat::kArchive:
      return "a zip or gzip archive";
    case ImageFormat::kZeros:
      return "zero bytes only, a hole left by a failed copy";
    case ImageFormat::kText:
      return "plain text";
    default:
      return "";
  }
}

std::string first_bytes(Bytes encoded) {
  std::string hex;
  for (const std::byte byte : encoded.first(std::min<std::size_t>(encoded.size(), 8))) {
    hex += fmt::format("{}{:02x}", hex.empty() ? "" : " ", std::to_integer<unsigned>(byte));
  }
  return hex;
}

}  // namespace

ImageFormat detect_format(Bytes encoded) noexcept {
  if (encoded.empty()) return ImageFormat::kEmpty;
  for (const Magic& magic : kMagics) {
    if (holds(encoded, 0, magic.bytes)) return magic.format;
  }
  if (holds(encoded, 0, "RIFF"sv) && holds(encoded, 8, "WEBP"sv)) return ImageFormat::kWebp;
  const ImageFormat media = media_format(encoded);
  if (media != ImageFormat::kUnknown) return media;
  if (std::all_of(encoded.begin(), encoded.end(), is_zero)) return ImageFormat::kZeros;
  const Bytes sample = encoded.first(std::min(encoded.size(), kTextSampleBytes));
  if (encoded.size() >= kShortestBytes && std::all_of(sample.begin(), sample.end(), is_text)) {
    return markup_format(sample);
  }
  return ImageFormat::kUnknown;
}

Failure unreadable(Bytes encoded) {
  const ImageFormat format = detect_format(encoded);
  const std::size_t size = encoded.size();
  switch (format) {
    case ImageFormat::kEmpty:
      return corrupt("an empty file, 0 bytes");
    case ImageFormat::kLfsPointer:
      return {ErrorCode::kCorruptData,
              "not a picture but a Git LFS pointer; fetch the data with 'git lfs pull'"};
    case ImageFormat::kAppleDouble:
    case ImageFormat::kHtml:
    case ImageFormat::kZeros:
    case ImageFormat::kText:
    case ImageFormat::kXml:
    case ImageFormat::kArchive:
      return corrupt(fmt::format("not a picture but {} ({} bytes)", description(format), size));
    case ImageFormat::kJpeg:
    case ImageFormat::kPng:
    case ImageFormat::kWebp:
    case ImageFormat::kUnknown:
      break;
    default:
      return unsupported(fmt::format("unsupported format: {}", description(format)));
  }
  if (size < kShortestBytes) {
    return corrupt(fmt::format("truncated: only {} byte{} ({})", size, size == 1 ? "" : "s",
                               first_bytes(encoded)));
  }
  return corrupt(fmt::format("not a picture of a known format: {} bytes that begin with {}", size,
                             first_bytes(encoded)));
}

}  // namespace feedrace::decode
