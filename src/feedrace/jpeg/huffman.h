// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <vector>

namespace feedrace::jpeg {

/// A Huffman table as a DHT segment defines it (ITU-T T.81, B.2.4.2).
struct HuffmanSpec {
  std::array<std::uint8_t, 16> counts{};    ///< Codes of 1 to 16 bits.
  std::array<std::uint8_t, 256> symbols{};  ///< By rising code; 0 behind the last.

  friend bool operator==(const HuffmanSpec&, const HuffmanSpec&) = default;
};

/// Codes by their length, for the few that no table answers.
struct CodeRanges {
  /// Of `length` bits are the codes below `end[length]`, left-aligned to 16 bits; rising with the
  /// length.
  std::array<std::uint32_t, 17> end{};
  std::array<std::int32_t, 17> symbol_offset{};  ///< Symbol number = code + this.
  std::array<std::uint8_t, 256> symbols{};

  struct Code {
    unsigned length = 0;  ///< 0: no code begins like this.
    unsigned symbol = 0;
  };

  /// Of the code that the upper bits of `bits` begin with.
  Code find(std::uint64_t bits) const noexcept {
    const auto head = static_cast<std::uint32_t>(bits >> 48);
    for (unsigned length = 1; length <= 16; ++length) {
      if (head >= end[length]) continue;
      const auto number = static_cast<std::int32_t>(head >> (16 - length)) + symbol_offset[length];
      return {length, symbols[static_cast<std::size_t>(number)]};
    }
    return {};
  }
};

/// The value that `bits`, `size` of them, stand for (T.81, F.12): the upper half of the range is
/// positive, the lower negative.
constexpr std::int32_t extend(std::uint32_t bits, unsigned size) noexcept {
  if (size == 0 || bits >> (size - 1) != 0) return static_cast<std::int32_t>(bits);
  return static_cast<std::int32_t>(bits) - (std::int32_t{1} << size) + 1;
}

/// Answers the next bits of a stream with the DC difference that they begin with, also where only
/// its code and sign lie within the index: `value` is then what the rest is to be added to.
struct DcTable {
  static constexpr unsigned kIndexBits = 9;
  struct Entry {
    std::uint8_t length = 0;  ///< Bits of code and value; 0: longer than the table tells.
    std::int16_t value = 0;
  };
  std::array<Entry, 1U << kIndexBits> entries;
  CodeRanges codes;
};

/// Answers the next bits of a stream with as many AC coefficients as they hold.
///
/// An entry, from the lowest byte: bits that it takes; where its last coefficient lies, counted
/// from the next position of the block, with the flags below; the last coefficient (two bytes), to
/// which the bits behind the index are added when it takes more than those; the coefficients at
/// the next four positions (a byte each), the last one left out.
struct AcTable {
  static constexpr unsigned kIndexBits = 11;
  static constexpr unsigned kEnds = 64;    ///< The end of the block (EOB) lies behind the last.
  static constexpr unsigned kEmpty = 128;  ///< With `kEnds`: there is no coefficient in front.
  static constexpr unsigned kPlaceMask = 63;
  static constexpr unsigned kUnknown = kEnds + 63;  ///< The first code is longer than the index.
  static constexpr unsigned kLanes = 4;

  /// One more: the lanes of an entry are loaded with what lies behind.
  std::array<std::uint64_t, (1U << kIndexBits) + 1> entries;
  CodeRanges codes;
};

/// By the number of bits that an entry takes: which of them lie behind the index.
template <unsigned kIndexBits>
struct RestMask {
  std::array<std::uint16_t, 64> of{};
  constexpr RestMask() {
    for (unsigned length = kIndexBits + 1; length <= kIndexBits + 15; ++length) {
      of[length] = static_cast<std::uint16_t>((1U << (length - kIndexBits)) - 1);
    }
  }
};
inline constexpr RestMask<DcTable::kIndexBits> kDcRest;
inline constexpr RestMask<AcTable::kIndexBits> kAcRest;

/// Tables by their content: pictures of one encoder often share theirs, and making them takes
/// about a fortieth of the time that a photo of 500 x 400 takes. One instance serves one thread.
/// The tables that were found stay valid for the next `kKept` - 1 searches.
class TableCache {
 public:
  /// Of each kind: two for each of a few encoders in turn. More would only be written over and over
  /// where every picture brings its own, and push other data out of the second level cache.
  static constexpr std::size_t kKept = 6;

  /// Null when the codes are more than their lengths can tell apart, or a DC size has more than 15
  /// bits: not a table.
  const DcTable* dc(const HuffmanSpec& spec);
  const AcTable* ac(const HuffmanSpec& spec);

  std::size_t memory_bytes() const noexcept;

 private:
  template <typename Table>
  struct Kept {
    HuffmanSpec spec;
    std::unique_ptr<Table> table;
  };
  template <typename Table>
  struct Shelf {
    std::vector<Kept<Table>> kept;  // The one used last in front.
    const Table* find(const HuffmanSpec& spec);
  };

  Shelf<DcTable> dc_;
  Shelf<AcTable> ac_;
};

}  // namespace feedrace::jpeg
