// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "feedrace/jpeg/huffman.h"

// Entropy decoding, one set of loops for each instruction set. All give the same.
namespace feedrace::jpeg {

/// Coefficients of a block, in zigzag order.
inline constexpr std::size_t kBlockSize = 64;
/// Coefficients that may be written behind the last block of a row of blocks.
inline constexpr std::size_t kSpareCoefficients = 8;
/// Blocks of one MCU (T.81, B.2.3).
inline constexpr std::size_t kMaxMcuBlocks = 10;
/// What one MCU can take of the stream: a code of 16 bits and a value of 15 for each coefficient.
inline constexpr std::size_t kMaxMcuBytes = kMaxMcuBlocks * kBlockSize * 31 / 8 + 1;
/// Bytes behind the next one that the entropy decoder may load.
inline constexpr std::size_t kLoadBytes = 8;

/// Where reading stands in bytes that are free of stuffing.
struct BitCursor {
  const std::uint8_t* next = nullptr;  ///< First byte that is not wholly in `bits`.
  std::uint64_t bits = 0;              ///< The next ones, from the top.
  unsigned available = 0;              ///< Bits of `bits` that count as read.
};

/// One block of an MCU.
struct McuBlock {
  const DcTable* dc = nullptr;
  const AcTable* ac = nullptr;
  std::uint32_t component = 0;
  // Where it goes; unused when blocks are walked over.
  std::int16_t* coefficients = nullptr;
  std::uint8_t* last = nullptr;  ///< Number of its last coefficient that is not 0, or above.
  std::size_t step = 0;          ///< Blocks from one MCU to the next.
};

/// MCUs in a row.
struct McuRun {
  std::span<McuBlock> blocks;        ///< `coefficients` and `last` move on.
  std::array<std::int32_t, 3> dc{};  ///< Last DC value of each component.
  std::size_t count = 0;             ///< MCUs left.
  bool is_damaged = false;
};

struct EntropyKernels {
  const char* name;  ///< "SSE4", "AVX2", ...

  /// Decodes MCUs until none is left, `cursor.next` lies behind `limit`, or one is damaged. From
  /// `limit` on `kMaxMcuBytes` + `kLoadBytes` bytes are there to be read.
  void (*decode_mcus)(BitCursor& cursor, const std::uint8_t* limit, McuRun& run);
  /// The same without writing coefficients: only DC values count.
  void (*walk_mcus)(BitCursor& cursor, const std::uint8_t* limit, McuRun& run);
};

/// The sets that this machine can run, the fastest last; empty where there is none.
std::vector<const EntropyKernels*> entropy_kernels();

}  // namespace feedrace::jpeg
