// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "feedrace/jpeg/entropy.h"
#include "feedrace/jpeg/frame.h"
#include "feedrace/jpeg/huffman.h"
#include "feedrace/jpeg/scan_bytes.h"

namespace feedrace::jpeg {

/// Where MCUs of a scan begin in the file.
struct ScanPlace {
  std::size_t at = 0;                ///< Byte of the file.
  unsigned skipped_bits = 0;         ///< Of that byte, 0 to 7.
  std::array<std::int32_t, 3> dc{};  ///< Last DC value of each component.
  std::size_t mcu = 0;               ///< Number of the first of them.

  friend bool operator==(const ScanPlace&, const ScanPlace&) = default;
};

/// Walks through the MCUs of a picture's only scan, from its beginning or from a known place,
/// across restart markers. A call that returns false met damage; what it wrote is worth nothing.
class Scan {
 public:
  explicit Scan(const EntropyKernels& kernels) noexcept : kernels_(&kernels) {}

  /// `encoded` must stay. False: a Huffman table is none.
  [[nodiscard]] bool start(std::span<const std::byte> encoded, const Frame& frame,
                           TableCache& tables);

  /// Goes on at a place of the picture that was started, one that `place` gave. Whatever another
  /// one says, nothing outside of `encoded`, in which its byte must lie, is read.
  void start_at(const ScanPlace& place);
  /// Where the next MCU begins: in front of the restart marker, if one is due.
  ScanPlace place();

  /// Blocks of an MCU in the order of the data; where they go is the caller's to set.
  std::span<McuBlock> blocks() noexcept { return run_.blocks; }

  /// Number of the MCU that is read next.
  std::size_t next_mcu() const noexcept { return next_mcu_; }

  [[nodiscard]] bool decode(std::size_t mcu_count);
  [[nodiscard]] bool walk(std::size_t mcu_count);
  /// Walks to an MCU that lies ahead; what lies in front of a restart marker on the way is not
  /// looked at.
  [[nodiscard]] bool skip_to(std::size_t mcu);

  /// True when the data ended as it should, and the end marker follows. After the last MCU.
  [[nodiscard]] bool is_finished();

 private:
  using Read = void (*)(BitCursor& cursor, const std::uint8_t* limit, McuRun& run);
  bool read(std::size_t mcu_count, Read read_mcus);
  bool restart();
  bool has_wild_level() const;

  const EntropyKernels* kernels_;
  std::span<const std::byte> encoded_;
  ScanBytes bytes_;
  BitCursor cursor_;
  std::array<McuBlock, kMaxMcuBlocks> blocks_;
  McuRun run_;
  std::size_t next_mcu_ = 0;
  std::size_t interval_ = 0;  // MCUs between restart markers; 0: there are none.
  std::size_t until_restart_ = 0;
  unsigned next_restart_ = 0;  // Number of the next restart marker, 0 to 7.
};

}  // namespace feedrace::jpeg
