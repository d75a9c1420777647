// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

#include "feedrace/decoder.h"
#include "feedrace/error.h"

namespace feedrace::decode {

/// kCorruptData: "<found>; restore the file from its source or leave it out".
Failure corrupt(std::string_view found);

/// kUnsupported: "<found>; convert the picture to JPEG, PNG or WebP".
Failure unsupported(std::string_view found);

/// kCorruptData: the picture would need more than `limits.max_memory_bytes` while it is decoded.
Failure needs_too_much_memory(std::string_view format, std::uint64_t needed_bytes,
                              const DecodeLimits& limits);

/// kIo: the system gave no memory.
Failure out_of_memory(std::string_view format, std::uint64_t needed_bytes);

/// Fails for a side of 0 pixels and for more than `limits.max_pixels`.
Result<void> check_size(std::string_view format, std::uint32_t width_px, std::uint32_t height_px,
                        const DecodeLimits& limits);

}  // namespace feedrace::decode
