// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/webp_container.h"

#include <algorithm>

#include <fmt/format.h>

#include "feedrace/decode/bytes.h"
#include "feedrace/decode/exif.h"
#include "feedrace/decode/messages.h"

namespace feedrace::decode {
namespace {

using Bytes = std::span<const std::byte>;

// The container specification of WebP: chunks are a name, a size and a payload padded to even.
constexpr std::size_t kRiffHeaderBytes = 12;
constexpr std::size_t kChunkHeaderBytes = 8;
constexpr std::size_t kExtendedBytes = 10;     // Payload of VP8X.
constexpr std::size_t kFrameHeaderBytes = 16;  // In front of the chunks in ANMF.
constexpr std::uint32_t kAnimationFlag = 0x02;

void read_extended(Bytes payload, WebpContainer& container) noexcept {
  if (payload.size() < kExtendedBytes) return;
  container.animated = (byte_at(payload, 0) & kAnimationFlag) != 0;
  container.canvas_width_px = little24(payload, 4) + 1;
  container.canvas_height_px = little24(payload, 7) + 1;
}

void read_frame(Bytes payload, WebpContainer& container) noexcept {
  if (payload.size() < kFrameHeaderBytes || !container.bitstream.empty()) return;
  const bool at_corner = little24(payload, 0) == 0 && little24(payload, 3) == 0;
  container.frame_fills_canvas = at_corner &&
                                 little24(payload, 6) + 1 == container.canvas_width_px &&
                                 little24(payload, 9) + 1 == container.canvas_height_px;
  container.bitstream = payload.subspan(kFrameHeaderBytes);
}

Failure past_end(Bytes encoded, std::size_t at, std::size_t riff_end) {
  if (riff_end <= encoded.size()) {
    return corrupt(
        fmt::format("corrupt WebP data: the chunk at byte {} is longer than the RIFF "
                    "size of {} lets it be",
                    at, riff_end - kChunkHeaderBytes));
  }
  return corrupt(
      fmt::format("truncated WebP data: it ends after {} of {} bytes", encoded.size(), riff_end));
}

}  // namespace

Result<WebpContainer> read_webp_container(Bytes encoded) {
  if (encoded.size() < kRiffHeaderBytes + kChunkHeaderBytes) {
    return corrupt(fmt::format("truncated WebP data: only {} bytes, no picture", encoded.size()));
  }
  const std::size_t riff_end = std::size_t{little32(encoded, 4)} + kChunkHeaderBytes;
  const std::size_t end = std::min(riff_end, encoded.size());
  WebpContainer container;
  for (std::size_t at = kRiffHeaderBytes; at + kChunkHeaderBytes <= end;) {
    const std::size_t size = little32(encoded, at + 4);
    const std::size_t payload_at = at + kChunkHeaderBytes;
    if (size > end - payload_at) return past_end(encoded, at, riff_end);
    const Bytes payload = encoded.subspan(payload_at, size);
    if (holds(encoded, at, "VP8X")) read_extended(payload, container);
    if (holds(encoded, at, "ANMF")) read_frame(payload, container);
    if (holds(encoded, at, "EXIF")) container.orientation = exif_orientation(payload);
    at = payload_at + size + size % 2;
  }
  if (riff_end > encoded.size()) return past_end(encoded, encoded.size(), riff_end);
  if (!container.animated) {
    container.bitstream = encoded;
  } else if (container.bitstream.empty()) {
    return corrupt("corrupt WebP data: an animation without a frame");
  }
  return container;
}

}  // namespace feedrace::decode
