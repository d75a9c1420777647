// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "feedrace/error.h"

namespace feedrace::decode {

/// What a walk over the segments in front of the first scan finds, before libjpeg sees a byte.
struct JpegHeader {
  bool has_frame = false;  ///< A frame header was met; the next three are of it.
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
  std::uint32_t component_count = 0;
  std::uint8_t orientation = 1;  ///< Of the first EXIF block.
};

/// Walks from segment to segment by their lengths, so that a thumbnail inside one is not mistaken
/// for the picture. Bytes that are no marker end the walk: what they mean is libjpeg's to say.
/// Failure kCorruptData: a segment shorter than its own length field, or longer than the file;
/// libjpeg steps over the first and takes the second for an end.
Result<JpegHeader> read_jpeg_header(std::span<const std::byte> encoded);

/// True when `scan`, the bytes from the first scan's data on, hold an end marker (EOI).
bool has_end_marker(std::span<const std::byte> scan) noexcept;

}  // namespace feedrace::decode
