// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/jpeg_header.h"

#include <string_view>

#include <fmt/format.h>

#include "feedrace/decode/bytes.h"
#include "feedrace/decode/exif.h"
#include "feedrace/decode/messages.h"

namespace feedrace::decode {
namespace {

// Marker codes of ITU-T T.81, table B.1.
constexpr std::uint32_t kTemporary = 0x01;
constexpr std::uint32_t kFirstFrame = 0xc0;
constexpr std::uint32_t kHuffmanTables = 0xc4;
constexpr std::uint32_t kReserved = 0xc8;
constexpr std::uint32_t kArithmeticConditioning = 0xcc;
constexpr std::uint32_t kLastFrame = 0xcf;
constexpr std::uint32_t kFirstRestart = 0xd0;
constexpr std::uint32_t kStartOfImage = 0xd8;
constexpr std::uint32_t kEndOfImage = 0xd9;
constexpr std::uint32_t kStartOfScan = 0xda;
constexpr std::uint32_t kApp1 = 0xe1;

bool is_frame(std::uint32_t marker) noexcept {
  return marker >= kFirstFrame && marker <= kLastFrame && marker != kHuffmanTables &&
         marker != kReserved && marker != kArithmeticConditioning;
}

/// True for markers that no length follows.
bool stands_alone(std::uint32_t marker) noexcept {
  return marker == kTemporary || (marker >= kFirstRestart && marker <= kStartOfImage);
}

Failure bad_length(std::uint32_t marker, std::size_t at, std::size_t length, std::size_t size) {
  if (length < 2) {
    return corrupt(fmt::format("corrupt JPEG data: the segment 0x{:02x} at byte {} has length {}",
                               marker, at, length));
  }
  return corrupt(
      fmt::format("truncated JPEG data: the segment 0x{:02x} at byte {} has length {}, the file "
                  "ends after {} bytes",
                  marker, at, length, size));
}

void read_frame(std::span<const std::byte> segment, JpegHeader& header) noexcept {
  if (header.has_frame || segment.size() < 8) return;
  header.has_frame = true;
  header.height_px = big16(segment, 3);
  header.width_px = big16(segment, 5);
  header.component_count = byte_at(segment, 7);
}

}  // namespace

Result<JpegHeader> read_jpeg_header(std::span<const std::byte> encoded) {
  constexpr std::string_view kExif("Exif\0\0", 6);
  JpegHeader header;
  bool has_exif = false;
  std::size_t at = 0;
  while (at + 1 < encoded.size() && byte_at(encoded, at) == 0xff) {
    const std::uint32_t marker = byte_at(encoded, at + 1);
    if (marker == 0xff) {  // A fill byte.
      ++at;
      continue;
    }
    if (marker == kStartOfScan || marker == kEndOfImage) break;
    const std::size_t marker_at = at;
    at += 2;
    if (stands_alone(marker)) continue;
    if (encoded.size() - at < 2) break;
    const std::size_t length = big16(encoded, at);
    if (length < 2 || length > encoded.size() - at) {
      return bad_length(marker, marker_at, length, encoded.size());
    }
    const std::span<const std::byte> segment = encoded.subspan(at, length);
    if (is_frame(marker)) read_frame(segment, header);
    if (marker == kApp1 && !has_exif && holds(segment, 2, kExif)) {
      has_exif = true;
      header.orientation = exif_orientation(segment.subspan(2));
    }
    at += length;
  }
  return header;
}

bool has_end_marker(std::span<const std::byte> scan) noexcept {
  for (std::size_t at = scan.size(); at >= 2; --at) {
    if (scan[at - 1] == std::byte{kEndOfImage} && scan[at - 2] == std::byte{0xff}) return true;
  }
  return false;
}

}  // namespace feedrace::decode
