// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "feedrace/error.h"
#include "feedrace/pipeline.h"

namespace feedrace::transform {

/// The largest raw sample.
inline constexpr std::uint64_t kMaxRawBytes = std::uint64_t{1} << 30;

/// Where the numbers of a raw sample lie in its bytes.
struct RawValues {
  RawSamples samples;  ///< With dtype and shape.
  std::size_t at_bytes = 0;
  std::size_t size_bytes = 0;
};

/// Finds them in a sample of `size_bytes`, of which `front` is the begin: all of it, or at least
/// `decode::kMaxNpyHeaderBytes`. Failure: kCorruptData: a header that can't be used, another dtype
/// or shape than `samples` has (names both), more or fewer bytes than those say, none.
Result<RawValues> find_raw_values(const RawSamples& samples, std::span<const std::byte> front,
                                  std::uint64_t size_bytes);

/// Bytes of one sample's numbers; dtype and shape are set and checked.
std::size_t raw_bytes(const RawSamples& samples);

/// Throws Error kInvalidArgument: plain numbers without dtype or shape, an extent below 1, more
/// than `kMaxRawBytes`.
void check_raw(const RawSamples& samples);

/// "raw .npy float32 [3, 224, 224]".
std::string raw_text(const RawSamples& samples);

}  // namespace feedrace::transform
