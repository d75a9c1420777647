// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/tensor.h"

namespace feedrace::decode {

/// What is in front of the numbers of a `.npy` array.
struct NpyHeader {
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  ///< Empty: one number. As the header has it, 0 included.
  std::size_t values_at_bytes = 0;  ///< Where the numbers begin.
};

/// A header is no longer, as NumPy itself has it by default: whoever has this many bytes of an
/// array has all of it.
inline constexpr std::size_t kMaxNpyHeaderBytes = 10'000 + 12;

/// Reads the header at the begin of `bytes`, of versions 1.0, 2.0 and 3.0; what lies behind it is
/// not looked at. Failure: kCorruptData, with what was found: other bytes, a header that is cut or
/// malformed, Fortran order, and values that are not uint8, or little-endian float16, float32 or
/// int64.
Result<NpyHeader> read_npy_header(std::span<const std::byte> bytes);

}  // namespace feedrace::decode
