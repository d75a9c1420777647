// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace feedrace::decode {

/// The orientation tag, 1 to 8, of an EXIF block (a TIFF header and what follows it; the six bytes
/// "Exif\0\0" may stand in front). 1 for everything else: no tag, a value outside 1 to 8, offsets
/// that point nowhere. A damaged block must never cost a sample whose pixels are fine.
std::uint8_t exif_orientation(std::span<const std::byte> block) noexcept;

}  // namespace feedrace::decode
