// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "feedrace/decoder.h"
#include "feedrace/error.h"

namespace feedrace::pack {

struct JpegTranscode {
  bool baseline = false;  ///< One baseline Huffman scan; else as many and of the kind as before.
  unsigned restart_rows = 0;  ///< A restart marker every so many rows of MCUs; 0: as they are.
};

/// Writes a JPEG anew from its coefficients, so that its pixels stay, with the best Huffman tables
/// and all of its marker segments in their order. Bytes behind the picture's end are not kept.
/// Nothing where it is already as wanted. Failures: kCorruptData for everything that decoders
/// complain of, for what is incomplete, and above the limits; kUnsupported; kIo for no memory.
Result<std::optional<std::string>> transcode_jpeg(std::span<const std::byte> encoded,
                                                  const JpegTranscode& wanted,
                                                  const decode::DecodeLimits& limits);

}  // namespace feedrace::pack
