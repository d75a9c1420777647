// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "feedrace/decode/image_decoder.h"
#include "feedrace/decode/npy_header.h"
#include "feedrace/error.h"

namespace feedrace::pack {

/// Decodes pictures as the loader does, and keeps nothing of them. One instance serves one thread.
class PictureCheck {
 public:
  struct Outcome {
    std::uint64_t pixel_count = 0;
    std::string complaint;  ///< Empty: none.
  };

  explicit PictureCheck(const decode::DecodeLimits& limits) : decoder_(limits) {}

  /// The whole picture. A decoded one (`.npy`, also as an LZ4 or Zstandard frame) too; of another
  /// plain array, which the recipe raw takes, that it has as many values as its header says.
  /// Failures: kCorruptData, kUnsupported.
  Result<Outcome> check(std::span<const std::byte> encoded);

  /// Memory for encoded bytes, to be filled by the caller; until its next call.
  std::span<std::byte> memory(std::size_t bytes);

 private:
  static Result<Outcome> check_array(const decode::NpyHeader& header, std::size_t size_bytes);

  decode::ImageDecoder decoder_;
  std::vector<std::uint8_t> rows_;
  std::vector<std::byte> encoded_;
};

}  // namespace feedrace::pack
