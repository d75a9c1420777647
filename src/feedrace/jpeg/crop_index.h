// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "feedrace/jpeg/frame.h"
#include "feedrace/jpeg/scan.h"

// The crop index of one picture: places in its entropy-coded data from which decoding can go on, so
// that a crop costs little more than its own blocks. They lie at the start of each row of MCUs and
// at every so many MCUs along it.
//
// Its bytes, numbers as varints (7 bits a byte, the lowest first):
//   version (one byte)
//   XXH3 of 64 bits, little endian, over all that follows, seeded with the XXH3 of the whole file:
//   it
//     says that both are as they were
//   MCUs from one place to the next along a row
//   for each place but the first, which is the scan's beginning: bits of the file since the one
//     before; for each component the difference of its DC value, 0, -1, 1, -2 as 0, 1, 2, 3
namespace feedrace::jpeg {

/// Walks through a picture once, and chooses places as dense as 1.5 % of its bytes allow, with 8
/// that whoever stores the index spends on finding it. Nothing for a picture that `read_frame` or
/// `Scan` does not do or that is damaged, for one that has restart markers each row of MCUs or more
/// often, which serve as well, and for one that is too small to have room for a place each row.
/// `why_none` then says which, as it stands behind a number of pictures: "too small".
std::optional<std::vector<std::byte>> make_crop_index(std::span<const std::byte> encoded,
                                                      std::string* why_none = nullptr);

/// Reads the crop index of picture after picture. One instance serves one thread and keeps its
/// memory.
class CropIndex {
 public:
  /// What `read` says of one that is not of the picture's bytes; also for whoever sees that without
  /// reading it, as none is made of such a picture.
  static constexpr const char* kOfAnotherFile = "of another file, or damaged";

  /// Empty when every place can be used. Else why none can be, as the end of a sentence about the
  /// index: it is of another file, of another version, or damaged. Nothing outside of `bytes` and
  /// `encoded` is read, whatever they hold. `frame` is that of `encoded`.
  const char* read(std::span<const std::byte> bytes, std::span<const std::byte> encoded,
                   const Frame& frame);

  /// The last place at or in front of an MCU of the picture that was read.
  const ScanPlace& find(std::uint32_t mcu_row, std::uint32_t mcu_column) const noexcept {
    return places_[std::size_t{mcu_row} * a_row_ + mcu_column / step_];
  }

  std::span<const ScanPlace> places() const noexcept { return places_; }
  std::size_t memory_bytes() const noexcept { return places_.capacity() * sizeof places_[0]; }

 private:
  const char* read_places(std::span<const std::byte> bytes, std::size_t file_bytes,
                          const Frame& frame);

  std::uint32_t step_ = 1;  // MCUs from one place to the next along a row.
  std::size_t a_row_ = 1;   // Places in each row of MCUs.
  std::vector<ScanPlace> places_;
};

}  // namespace feedrace::jpeg
