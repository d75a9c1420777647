// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/exif.h"

#include <string_view>

#include "feedrace/decode/bytes.h"

namespace feedrace::decode {
namespace {

constexpr std::size_t kTiffHeaderBytes = 8;
constexpr std::size_t kEntryBytes = 12;  // Tag, type, count, value: TIFF 6.0, section 2.
constexpr std::uint32_t kOrientationTag = 0x0112;
constexpr std::uint32_t kTypeShort = 3;

/// Numbers of a TIFF block in the byte order that its first bytes name.
struct TiffReader {
  std::span<const std::byte> bytes;
  bool big = false;

  std::uint32_t u16(std::size_t at) const noexcept {
    return big ? big16(bytes, at) : little16(bytes, at);
  }
  std::uint32_t u32(std::size_t at) const noexcept {
    return big ? big32(bytes, at) : little32(bytes, at);
  }
};

/// Looks in the first directory only: links to further ones are never followed, so there is no
/// loop to fall into.
std::uint8_t orientation_of(const TiffReader& tiff) noexcept {
  const std::size_t size = tiff.bytes.size();
  const std::size_t directory = tiff.u32(4);
  if (directory < kTiffHeaderBytes || directory > size || size - directory < 2) return 1;
  const std::size_t entry_count = tiff.u16(directory);
  std::size_t at = directory + 2;
  for (std::size_t i = 0; i < entry_count && size - at >= kEntryBytes; ++i, at += kEntryBytes) {
    if (tiff.u16(at) != kOrientationTag) continue;
    if (tiff.u16(at + 2) != kTypeShort || tiff.u32(at + 4) != 1) return 1;
    const std::uint32_t value = tiff.u16(at + 8);
    return value >= 1 && value <= 8 ? static_cast<std::uint8_t>(value) : std::uint8_t{1};
  }
  return 1;
}

}  // namespace

std::uint8_t exif_orientation(std::span<const std::byte> block) noexcept {
  constexpr std::string_view kPrefix("Exif\0\0", 6);
  if (holds(block, 0, kPrefix)) block = block.subspan(kPrefix.size());
  if (block.size() < kTiffHeaderBytes) return 1;
  const bool little = holds(block, 0, std::string_view("II*\0", 4));
  const bool big = holds(block, 0, std::string_view("MM\0*", 4));
  if (!little && !big) return 1;
  return orientation_of({block, big});
}

}  // namespace feedrace::decode
