// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "feedrace/jpeg/entropy.h"

namespace feedrace::jpeg {

/// The entropy-coded bytes of a scan without stuffing (T.81, B.1.1.5), a window at a time: only
/// what is decoded is copied, and it stays in the first level cache.
class ScanBytes {
 public:
  ScanBytes();

  /// Begins at byte `at` of `encoded`, which must stay, and `skipped_bits` (0 to 7) behind it.
  void start(std::span<const std::byte> encoded, std::size_t at, unsigned skipped_bits,
             BitCursor& cursor);

  /// The cursor may go on decoding MCUs until `next` lies behind this.
  const std::uint8_t* limit() const noexcept { return limit_; }

  /// Moves the window on. False when the data is at its end: the cursor read behind it.
  [[nodiscard]] bool advance(BitCursor& cursor);

  /// True when more bits were taken than there are.
  bool is_overrun(const BitCursor& cursor) const noexcept;

  /// True when all data up to the marker was taken but for the bits that fill its last byte.
  bool is_finished(BitCursor& cursor);

  /// The marker that ended the data: its second byte; 0 where the bytes ended. `is_finished()`
  /// held.
  unsigned marker() const noexcept { return marker_; }

  /// Goes on behind the marker.
  void pass_marker(BitCursor& cursor);

  /// Goes on behind `count` restart markers, of which the next has the number `next` (0 to 7),
  /// without looking at the data between them. False: another marker, or none, lies there.
  [[nodiscard]] bool pass_restarts(std::size_t count, unsigned next, BitCursor& cursor);

  /// Where in the file the cursor's next bit lies. Cheap when asked in order: it counts what was
  /// stuffed since the last call, so that copying need not.
  struct Place {
    std::size_t at = 0;
    unsigned skipped_bits = 0;
  };
  Place place(const BitCursor& cursor);

 private:
  // Of the first level cache's 32 KiB, beside tables of 16 KiB.
  static constexpr std::size_t kWindowBytes = std::size_t{12} << 10;
  static_assert(kWindowBytes > 2 * (kMaxMcuBytes + kLoadBytes));
  // At first: a crop takes a few hundred bytes of each row, from a place of its own.
  static constexpr std::size_t kFirstBytes = kMaxMcuBytes + (std::size_t{2} << 10);

  void fill(std::uint8_t* to, std::size_t window_bytes = kWindowBytes);
  void end_data();
  void find_marker();

  std::unique_ptr<std::uint8_t[]> window_;
  const std::uint8_t* begin_ = nullptr;   // Of the file.
  const std::uint8_t* source_ = nullptr;  // Not yet copied.
  const std::uint8_t* source_end_ = nullptr;
  const std::uint8_t* end_ = nullptr;  // Of the bytes in the window.
  const std::uint8_t* limit_ = nullptr;
  // A place of the window of which is known where in the file it lies.
  const std::uint8_t* known_ = nullptr;
  const std::uint8_t* known_source_ = nullptr;
  bool is_ended_ = false;
  unsigned marker_ = 0;
};

}  // namespace feedrace::jpeg
