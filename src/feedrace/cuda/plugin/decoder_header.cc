// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/decoder_header.h"

#include <algorithm>
#include <string_view>

namespace feedrace::cuda_plugin {
namespace {

using Bytes = std::span<const std::uint8_t>;

bool begins_with(Bytes bytes, std::string_view text) {
  return bytes.size() >= text.size() &&
         std::equal(text.begin(), text.end(), bytes.begin(),
                    [](char a, std::uint8_t b) { return static_cast<std::uint8_t>(a) == b; });
}

bool is_frame(std::uint8_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

/// The components of a frame are named R, G and B.
bool is_named_rgb(Bytes frame) {
  return frame.size() >= 15 && frame[5] == 3 && frame[6] == 'R' && frame[9] == 'G' &&
         frame[12] == 'B';
}

struct Colour {
  bool has_jfif = false;
  bool has_adobe = false;
  bool is_adobe_plain = false;
  bool is_named_rgb = false;
  bool has_three = false;

  void see(std::uint8_t marker, Bytes segment) {
    using std::string_view_literals::operator""sv;
    if (marker == 0xE0 && begins_with(segment, "JFIF\0"sv)) has_jfif = true;
    if (marker == 0xEE && segment.size() >= 12 && begins_with(segment, "Adobe"sv)) {
      has_adobe = true;
      is_adobe_plain = segment[11] == 0;
    }
    if (is_frame(marker)) {
      has_three = segment.size() >= 6 && segment[5] == 3;
      is_named_rgb = cuda_plugin::is_named_rgb(segment);
    }
  }
  bool is_rgb() const {
    if (!has_three || has_jfif) return false;
    return has_adobe ? is_adobe_plain : is_named_rgb;
  }
};

/// Writers pad a file with zeros; anything else behind the end is left to the CPU's decoder.
bool is_closed(Bytes bytes) {
  while (!bytes.empty() && bytes.back() == 0) bytes = bytes.first(bytes.size() - 1);
  return bytes.size() >= 4 && bytes[bytes.size() - 2] == 0xFF && bytes.back() == 0xD9;
}

}  // namespace

JpegMarkers read_markers(Bytes bytes) noexcept {
  Colour colour;
  for (std::size_t at = 2; at + 4 <= bytes.size();) {
    if (bytes[at] != 0xFF) break;
    const std::uint8_t marker = bytes[at + 1];
    if (marker == 0xFF) {  // Fill bytes before a marker are allowed.
      ++at;
      continue;
    }
    if (marker == 0xDA || marker == 0xD9) break;
    const std::size_t length = static_cast<std::size_t>(bytes[at + 2]) << 8U | bytes[at + 3];
    if (length < 2 || at + 2 + length > bytes.size()) break;
    colour.see(marker, bytes.subspan(at + 4, length - 2));
    at += 2 + length;
  }
  return {colour.is_rgb(), is_closed(bytes)};
}

}  // namespace feedrace::cuda_plugin
