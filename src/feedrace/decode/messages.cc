// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/messages.h"

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::decode {

Failure corrupt(std::string_view found) {
  return {ErrorCode::kCorruptData,
          fmt::format("{}; restore the file from its source or leave it out", found)};
}

Failure unsupported(std::string_view found) {
  return {ErrorCode::kUnsupported,
          fmt::format("{}; convert the picture to JPEG, PNG or WebP", found)};
}

Failure needs_too_much_memory(std::string_view format, std::uint64_t needed_bytes,
                              const DecodeLimits& limits) {
  return {ErrorCode::kCorruptData,
          fmt::format("{} data: decoding needs {}, which is above the limit of {}; raise "
                      "max_memory_bytes if the picture is meant",
                      format, human_bytes(needed_bytes), human_bytes(limits.max_memory_bytes))};
}

Failure out_of_memory(std::string_view format, std::uint64_t needed_bytes) {
  return {ErrorCode::kIo,
          fmt::format("{} data: the system has no {} for decoding it; use fewer decode threads",
                      format, human_bytes(needed_bytes))};
}

Result<void> check_size(std::string_view format, std::uint32_t width_px, std::uint32_t height_px,
                        const DecodeLimits& limits) {
  if (width_px == 0 || height_px == 0) {
    return corrupt(
        fmt::format("{} header: {} x {} pixels, an empty picture", format, width_px, height_px));
  }
  if (std::uint64_t{width_px} * height_px > limits.max_pixels) {
    return Failure{ErrorCode::kCorruptData,
                   fmt::format("{} header: {} x {} pixels are above the limit of {}; raise "
                               "max_pixels if the picture is meant",
                               format, width_px, height_px, with_commas(limits.max_pixels))};
  }
  return {};
}

}  // namespace feedrace::decode
