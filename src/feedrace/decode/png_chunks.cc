// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/png_chunks.h"

#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include "feedrace/decode/bytes.h"
#include "feedrace/decode/exif.h"
#include "feedrace/decode/messages.h"

namespace feedrace::decode {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::size_t kSignatureBytes = 8;
constexpr std::size_t kChunkHeaderBytes = 8;  // Length and type; a CRC of 4 bytes ends a chunk.
constexpr std::size_t kChunkExtraBytes = kChunkHeaderBytes + 4;
constexpr std::size_t kHeaderDataBytes = 13;
constexpr std::size_t kHeaderEnd = kSignatureBytes + kChunkExtraBytes + kHeaderDataBytes;

/// Bytes of the chunk that `rest` begins with, capped by what is there.
std::size_t chunk_bytes(Bytes rest) noexcept {
  if (rest.size() < kChunkHeaderBytes) return rest.size();
  return std::min<std::size_t>(rest.size(), std::size_t{big32(rest, 0)} + kChunkExtraBytes);
}

/// Lower case first letter: PNG specification, 5.4.
bool is_ancillary(Bytes chunk) noexcept {
  return chunk.size() >= kChunkHeaderBytes && (byte_at(chunk, 4) & 0x20U) != 0;
}

bool depth_fits(const PngHeader& header) noexcept {
  const std::uint32_t depth = header.bit_depth;
  switch (header.colour_type) {
    case 0:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
    case 3:
      return depth == 1 || depth == 2 || depth == 4 || depth == 8;
    case 2:
    case 4:
    case 6:
      return depth == 8 || depth == 16;
    default:
      return false;
  }
}

/// The standard allows eXIf anywhere between IHDR and IEND.
std::uint8_t find_orientation(Bytes rest) noexcept {
  while (rest.size() >= kChunkExtraBytes && !holds(rest, 4, "IEND")) {
    const std::size_t size = chunk_bytes(rest);
    if (holds(rest, 4, "eXIf")) {
      return exif_orientation(rest.subspan(kChunkHeaderBytes, size - kChunkExtraBytes));
    }
    rest = rest.subspan(size);
  }
  return 1;
}

}  // namespace

Result<PngHeader> read_png_header(Bytes encoded) {
  if (encoded.size() < kHeaderEnd) {
    return corrupt(
        fmt::format("truncated PNG data: it ends after {} bytes, inside IHDR", encoded.size()));
  }
  if (!holds(encoded, kSignatureBytes + 4, "IHDR") ||
      big32(encoded, kSignatureBytes) != kHeaderDataBytes) {
    return corrupt("corrupt PNG data: it does not begin with an IHDR chunk of 13 bytes");
  }
  const Bytes data = encoded.subspan(kSignatureBytes + kChunkHeaderBytes, kHeaderDataBytes);
  PngHeader header;
  header.width_px = big32(data, 0);
  header.height_px = big32(data, 4);
  header.bit_depth = byte_at(data, 8);
  header.colour_type = byte_at(data, 9);
  header.interlaced = byte_at(data, 12) == 1;
  if (!depth_fits(header)) {
    return corrupt(fmt::format("corrupt PNG data: IHDR says colour type {} with {} bits",
                               header.colour_type, header.bit_depth));
  }
  header.orientation = find_orientation(encoded.subspan(kHeaderEnd));
  return header;
}

PngPixelStream::PngPixelStream(Bytes encoded) noexcept
    : chunk_(encoded.first(std::min(encoded.size(), kSignatureBytes))),
      rest_(encoded.subspan(chunk_.size())) {}

void PngPixelStream::find_next_chunk() noexcept {
  while (chunk_.empty() && !rest_.empty()) {
    const std::size_t size = chunk_bytes(rest_);
    if (!is_ancillary(rest_)) chunk_ = rest_.first(size);
    rest_ = rest_.subspan(size);
  }
}

bool PngPixelStream::read(void* to, std::size_t size_bytes) noexcept {
  auto* out = static_cast<std::byte*>(to);
  while (size_bytes > 0) {
    if (chunk_.empty()) find_next_chunk();
    if (chunk_.empty()) return false;
    const std::size_t count = std::min(size_bytes, chunk_.size());
    std::memcpy(out, chunk_.data(), count);
    chunk_ = chunk_.subspan(count);
    out += count;
    size_bytes -= count;
  }
  return true;
}

}  // namespace feedrace::decode
