// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace feedrace::cuda_plugin {

/// What nvJPEG does not tell of a picture, and would decode to wrong pixels without an error.
struct JpegMarkers {
  /// Red, green and blue as they are, by the rules of libjpeg: nvJPEG takes them for YCbCr.
  bool is_stored_as_rgb = false;
  /// The end-of-image marker closes it. An engine decodes a picture that was cut to grey, silently.
  bool is_whole = false;
};

/// Reads markers up to the first scan, and the last bytes. Any bytes may be given.
JpegMarkers read_markers(std::span<const std::uint8_t> bytes) noexcept;

}  // namespace feedrace::cuda_plugin
