// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "feedrace/error.h"

namespace feedrace::decode {

/// What the RIFF chunks around a WebP picture say.
struct WebpContainer {
  /// What libwebp decodes: the file, or of an animation the chunks of its first frame.
  std::span<const std::byte> bitstream;
  bool animated = false;
  std::uint32_t canvas_width_px = 0;  ///< Of an animation, as is all that follows.
  std::uint32_t canvas_height_px = 0;
  bool frame_fills_canvas = false;
  std::uint8_t orientation = 1;  ///< Of an EXIF chunk.
};

/// Failure kCorruptData: the file is shorter than its chunks, the RIFF size smaller than them, or
/// an animation has no frame.
Result<WebpContainer> read_webp_container(std::span<const std::byte> encoded);

}  // namespace feedrace::decode
