// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/huffman.h"

#include <algorithm>
#include <cstddef>

namespace feedrace::jpeg {
namespace {

constexpr unsigned kRunOf16 = 0xf0;  // ZRL: sixteen zeros, no value.

/// False when the codes do not fit their lengths. As libjpeg, none may be all ones.
bool make_ranges(const HuffmanSpec& spec, CodeRanges& codes) {
  std::uint32_t code = 0;
  std::int32_t first_symbol = 0;
  for (unsigned length = 1; length <= 16; ++length) {
    const std::uint32_t count = spec.counts[length - 1];
    codes.symbol_offset[length] = first_symbol - static_cast<std::int32_t>(code);
    first_symbol += static_cast<std::int32_t>(count);
    code += count;
    if (code >= 1U << length && count > 0) return false;
    codes.end[length] = code << (16 - length);
    code <<= 1;
  }
  codes.symbols = spec.symbols;
  return first_symbol <= 256;
}

/// Calls `take(length, symbol, first, count)` for each code of up to `bits` bits, in order: the
/// patterns of `bits` bits that begin with it are `count`, from `first` on. Returns the number of
/// patterns that begin with one.
template <class Take>
std::size_t each_code(const HuffmanSpec& spec, unsigned bits, Take take) {
  std::size_t first = 0;
  std::size_t number = 0;
  for (unsigned length = 1; length <= bits; ++length) {
    const std::size_t count = std::size_t{1} << (bits - length);
    for (unsigned i = 0; i < spec.counts[length - 1]; ++i, first += count) {
      take(length, unsigned{spec.symbols[number++]}, first, count);
    }
  }
  return first;
}

bool make_table(const HuffmanSpec& spec, DcTable& table) {
  if (!make_ranges(spec, table.codes)) return false;
  if (std::any_of(spec.symbols.begin(), spec.symbols.end(), [](auto size) { return size > 15; })) {
    return false;
  }
  table.entries.fill({});
  each_code(spec, DcTable::kIndexBits,
            [&](unsigned length, unsigned size, std::size_t first, std::size_t count) {
              if (size > 0 && count == 1) return;  // Its sign lies behind the index.
              const unsigned known = std::min(size, DcTable::kIndexBits - length);
              for (std::uint32_t bits = 0; bits < 1U << known; ++bits) {
                const DcTable::Entry entry{
                    static_cast<std::uint8_t>(length + size),
                    static_cast<std::int16_t>(extend(bits << (size - known), size))};
                std::fill_n(&table.entries[first + bits * (count >> known)], count >> known, entry);
              }
            });
  return true;
}

// The parts of an entry of an AC table. Its lanes move up by bytes.
constexpr unsigned kPlaceAt = 8;
constexpr unsigned kValueAt = 16;
constexpr unsigned kLanesAt = 32;
constexpr std::uint64_t kLengthMask = 0xff;

constexpr std::uint64_t flag(unsigned flags) { return std::uint64_t{flags} << kPlaceAt; }

constexpr std::uint64_t single(unsigned length, unsigned run, std::int32_t value) {
  return length | std::uint64_t{run} << kPlaceAt |
         std::uint64_t{static_cast<std::uint16_t>(value)} << kValueAt;
}

/// A coefficient that fits a lane, and what follows it.
class Prefix {
 public:
  Prefix(unsigned length, unsigned run, std::int32_t value)
      : single_(single(length, run, value)),
        end_(single_ + flag(AcTable::kEnds)),
        lane_bits_(8 * (run + 1)),
        added_(length + (std::uint64_t{run + 1} << kPlaceAt) +
               (std::uint64_t{static_cast<std::uint8_t>(value)} << (kLanesAt + 8 * run))) {}

  /// `first` is the first step of `rest` alone.
  std::uint64_t with(std::uint64_t rest, std::uint64_t first) const {
    const unsigned place = static_cast<unsigned>(rest >> kPlaceAt) & 0xffU;
    if (place == AcTable::kUnknown) return single_;
    if ((place & AcTable::kEmpty) != 0) return end_ + (rest & kLengthMask);
    const std::uint64_t lanes = rest >> kLanesAt << lane_bits_;
    if (lanes >> 32 != 0) return first + added_;  // No lane for some.
    return (rest & 0xffffffffU) + added_ + (lanes << kLanesAt);
  }

 private:
  std::uint64_t single_;
  std::uint64_t end_;
  unsigned lane_bits_;
  std::uint64_t added_;
};

/// Entries for what `bits` bits hold, made of those for fewer bits.
class AcLevels {
 public:
  AcLevels(const HuffmanSpec& spec, AcTable& table) : spec_(spec) {
    constexpr unsigned kAll = AcTable::kIndexBits;
    unsigned least = kAll;  // Bits of the shortest coefficient: what follows has so many less.
    each_code(spec, kAll, [&](unsigned length, unsigned symbol, std::size_t, std::size_t) {
      const bool is_end = (symbol & 15U) == 0 && symbol != kRunOf16;
      if (!is_end) least = std::min(least, length + (symbol & 15U));
    });
    for (unsigned bits = 0; bits <= kAll - least; ++bits) {
      make(bits, runs_.data() + (std::size_t{1} << bits),
           firsts_.data() + (std::size_t{1} << bits));
    }
    make(kAll, table.entries.data(), nullptr);
  }

 private:
  static constexpr std::uint64_t kNothing = flag(AcTable::kUnknown);

  void make(unsigned bits, std::uint64_t* entries, std::uint64_t* firsts) {
    const auto fill = [=](std::size_t first, std::size_t count, std::uint64_t entry) {
      std::fill_n(entries + first, count, entry);
      if (firsts != nullptr) std::fill_n(firsts + first, count, entry);
    };
    const std::size_t end = each_code(
        spec_, bits, [&](unsigned length, unsigned symbol, std::size_t first, std::size_t count) {
          const unsigned size = symbol & 15U;
          if (size == 0 && symbol != kRunOf16) {
            return fill(first, count, length + flag(AcTable::kEnds + AcTable::kEmpty));
          }
          if (size > 0 && count == 1) return fill(first, 1, kNothing);
          const unsigned known = std::min(size, bits - length);
          for (std::uint32_t pattern = 0; pattern < 1U << known; ++pattern) {
            const std::int32_t value = extend(pattern << (size - known), size);
            const unsigned run = symbol >> 4;
            const std::uint64_t alone = single(length + size, run, value);
            const std::size_t part = count >> known;
            const std::size_t begin = first + pattern * part;
            if (firsts != nullptr) std::fill_n(firsts + begin, part, alone);
            const bool fits_lane = run < AcTable::kLanes && value >= -128 && value <= 127;
            if (part == 1 || !fits_lane) {
              std::fill_n(entries + begin, part, alone);
              continue;
            }
            const Prefix prefix(length + size, run, value);
            // `part` patterns follow: those of the level of as many bits.
            for (std::size_t i = 0; i < part; ++i) {
              entries[begin + i] = prefix.with(runs_[part + i], firsts_[part + i]);
            }
          }
        });
    fill(end, (std::size_t{1} << bits) - end, kNothing);
  }

  const HuffmanSpec& spec_;
  // Level `bits` from 2^bits on; of the steps of each the first alone too.
  std::array<std::uint64_t, 1U << AcTable::kIndexBits> runs_;
  std::array<std::uint64_t, 1U << AcTable::kIndexBits> firsts_;
};

bool make_table(const HuffmanSpec& spec, AcTable& table) {
  if (!make_ranges(spec, table.codes)) return false;
  const AcLevels levels(spec, table);
  table.entries.back() = 0;
  return true;
}

}  // namespace

template <typename Table>
const Table* TableCache::Shelf<Table>::find(const HuffmanSpec& spec) {
  const auto found = std::find_if(kept.begin(), kept.end(),
                                  [&](const Kept<Table>& table) { return table.spec == spec; });
  if (found != kept.end()) {
    std::rotate(kept.begin(), found, found + 1);
    return kept.front().table.get();
  }
  Kept<Table> made{spec, nullptr};
  if (kept.size() == kKept) {
    made.table = std::move(kept.back().table);
    kept.pop_back();
  } else {
    made.table = std::make_unique<Table>();
  }
  if (!make_table(spec, *made.table)) return nullptr;
  kept.insert(kept.begin(), std::move(made));
  return kept.front().table.get();
}

const DcTable* TableCache::dc(const HuffmanSpec& spec) { return dc_.find(spec); }
const AcTable* TableCache::ac(const HuffmanSpec& spec) { return ac_.find(spec); }

std::size_t TableCache::memory_bytes() const noexcept {
  return dc_.kept.size() * sizeof(DcTable) + ac_.kept.size() * sizeof(AcTable);
}

}  // namespace feedrace::jpeg
