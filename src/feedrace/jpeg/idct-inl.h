// SPDX-License-Identifier: Apache-2.0
// The accurate integer inverse DCT ("islow": C. Loeffler, A. Ligtenberg, G. Moschytz, ICASSP 1989,
// fixed-point as libjpeg's) of as many blocks at once as a vector has halves. Included once for
// each instruction set, within its namespace.

constexpr hn::CappedTag<std::int16_t, 16> kShorts;
constexpr hn::RepartitionToWide<decltype(kShorts)> kInts;
constexpr hn::Repartition<std::uint8_t, decltype(kShorts)> kBytes;
constexpr hn::Full128<std::int16_t> kShorts8;
constexpr hn::Full128<std::uint8_t> kBytes16;
constexpr hn::Full128<std::uint64_t> kLongs2;
using Shorts = hn::Vec<decltype(kShorts)>;
using Ints = hn::Vec<decltype(kInts)>;
using Bytes = hn::Vec<decltype(kBytes)>;
/// Blocks in a vector.
constexpr std::size_t kBlocks = hn::MaxLanes(kShorts) / 8;

// ---- From zigzag order to rows ----

constexpr std::size_t kVectorBytes = hn::MaxLanes(kBytes);

/// Which bytes of the k-th eight coefficients of the stream a row of the block takes.
struct RowShuffles {
  alignas(kVectorBytes) std::uint8_t from[8][8][kVectorBytes];
  bool is_used[8][8];
};

constexpr RowShuffles make_row_shuffles() {
  RowShuffles shuffles{};
  for (auto& row : shuffles.from) {
    for (auto& part : row) {
      for (auto& byte : part) byte = 0x80;
    }
  }
  for (std::size_t i = 0; i < 64; ++i) {
    const std::size_t row = kNaturalOrder[i] / 8;
    const std::size_t column = kNaturalOrder[i] % 8;
    shuffles.is_used[row][i / 8] = true;
    for (std::size_t half = 0; half < kVectorBytes; half += 16) {
      for (std::size_t byte = 0; byte < 2; ++byte) {
        shuffles.from[row][i / 8][half + 2 * column + byte] =
            static_cast<std::uint8_t>(i % 8 * 2 + byte);
      }
    }
  }
  return shuffles;
}

inline constexpr RowShuffles kRowShuffles = make_row_shuffles();

template <std::size_t kRow, std::size_t kParts, std::size_t kPart = 0>
HWY_INLINE Shorts gather_row(const Shorts* parts, Shorts row) {
  if constexpr (kPart == kParts) {
    return row;
  } else {
    if constexpr (kRowShuffles.is_used[kRow][kPart]) {
      const Bytes from = hn::Load(kBytes, kRowShuffles.from[kRow][kPart]);
      const Bytes taken = hn::TableLookupBytesOr0(hn::BitCast(kBytes, parts[kPart]), from);
      row = hn::Or(row, hn::BitCast(kShorts, taken));
    }
    return gather_row<kRow, kParts, kPart + 1>(parts, row);
  }
}

template <std::size_t kParts, std::size_t kRows, std::size_t kRow = 0>
HWY_INLINE void gather_rows(const Shorts* parts, Shorts* rows) {
  if constexpr (kRow < kRows) {
    rows[kRow] = gather_row<kRow, kParts>(parts, hn::Zero(kShorts));
    gather_rows<kParts, kRows, kRow + 1>(parts, rows);
  }
}

/// The same eight coefficients of `kBlocks` blocks.
HWY_INLINE Shorts load_part(const std::int16_t* const* blocks, std::size_t part) {
#if HWY_MAX_BYTES >= 32
  return hn::Combine(kShorts, hn::LoadU(kShorts8, blocks[1] + 8 * part),
                     hn::LoadU(kShorts8, blocks[0] + 8 * part));
#else
  return hn::LoadU(kShorts, blocks[0] + 8 * part);
#endif
}

// ---- One dimension ----

constexpr int kFractionBits = 13;
constexpr int kFirstPassBits = 2;  // Kept between the passes.

/// Products of 16-bit neighbours, added: a[2i] * b[2i] + a[2i + 1] * b[2i + 1].
HWY_INLINE Ints multiply_pairs(Shorts a, Shorts b) {
#if HWY_ARCH_X86
  Ints unused = hn::Zero(kInts);
  return hn::ReorderWidenMulAccumulate(kInts, a, b, hn::Zero(kInts), unused);
#else
  const Ints x = hn::BitCast(kInts, a);
  const Ints y = hn::BitCast(kInts, b);
  const auto even = [](Ints v) { return hn::ShiftRight<16>(hn::ShiftLeft<16>(v)); };
  return hn::Add(hn::Mul(even(x), even(y)), hn::Mul(hn::ShiftRight<16>(x), hn::ShiftRight<16>(y)));
#endif
}

HWY_INLINE Shorts weights(int first, int second) {
  return hn::BitCast(
      kShorts,
      hn::Set(kInts, static_cast<std::int32_t>(static_cast<std::uint32_t>(second) << 16 |
                                               (static_cast<std::uint32_t>(first) & 0xffffU))));
}

/// The lower and the upper four columns of each block.
struct Halves {
  Ints lower, upper;
  HWY_INLINE Halves(Ints a, Ints b) : lower(a), upper(b) {}
};

/// Two rows, column beside column, for `multiply_pairs`.
struct RowPair {
  Shorts lower, upper;
  HWY_INLINE RowPair(Shorts a, Shorts b)
      : lower(hn::InterleaveLower(kShorts, a, b)), upper(hn::InterleaveUpper(kShorts, a, b)) {}
  HWY_INLINE Halves times(int first, int second) const {
    const Shorts w = weights(first, second);
    return {multiply_pairs(lower, w), multiply_pairs(upper, w)};
  }
};

HWY_INLINE Halves add(Halves a, Halves b) {
  return {hn::Add(a.lower, b.lower), hn::Add(a.upper, b.upper)};
}

HWY_INLINE Halves subtract(Halves a, Halves b) {
  return {hn::Sub(a.lower, b.lower), hn::Sub(a.upper, b.upper)};
}

template <int kBits>
HWY_INLINE Shorts descale(Halves value) {
  return hn::ReorderDemote2To(kShorts, hn::ShiftRight<kBits>(value.lower),
                              hn::ShiftRight<kBits>(value.upper));
}

// Constants of the transform, times 2^13.
constexpr int k0_298 = 2446;
constexpr int k0_390 = 3196;
constexpr int k0_541 = 4433;
constexpr int k0_765 = 6270;
constexpr int k0_899 = 7373;
constexpr int k1_175 = 9633;
constexpr int k1_501 = 12299;
constexpr int k1_847 = 15137;
constexpr int k1_961 = 16069;
constexpr int k2_053 = 16819;
constexpr int k2_562 = 20995;
constexpr int k3_072 = 25172;

struct EvenPart {
  Halves sums[4];
};

struct OddPart {
  Halves sums[4];
};

HWY_INLINE EvenPart combine(Halves sum, Halves difference, Halves slow, Halves fast) {
  return {{add(sum, slow), add(difference, fast), subtract(difference, fast), subtract(sum, slow)}};
}

/// What rounds to the nearest, as a product of two 16-bit numbers.
template <int kBits>
struct Rounding {
  static constexpr int kFirst = 1 << (kBits - 1 > 14 ? 14 : kBits - 1);
  static constexpr int kSecond = (1 << (kBits - 1)) / kFirst;
};

/// Of rows 0, 2, 4, 6; rows 4 and 6 are 0 where `kRows` is 4.
template <int kBits, std::size_t kRows>
HWY_INLINE EvenPart even_part(const Shorts* rows) {
  const Shorts half = hn::Set(kShorts, Rounding<kBits>::kFirst);
  constexpr int kHalf = Rounding<kBits>::kSecond;
  constexpr int kOne = 1 << kFractionBits;
  if constexpr (kRows == 4) {
    const Halves both = RowPair(rows[0], half).times(kOne, kHalf);
    const RowPair pair(rows[2], rows[2]);
    return combine(both, both, pair.times(k0_541 + k0_765, 0), pair.times(k0_541, 0));
  } else {
    const RowPair pair(rows[2], rows[6]);
    return combine(RowPair(hn::Add(rows[0], rows[4]), half).times(kOne, kHalf),
                   RowPair(hn::Sub(rows[0], rows[4]), half).times(kOne, kHalf),
                   pair.times(k0_541 + k0_765, k0_541), pair.times(k0_541, k0_541 - k1_847));
  }
}

/// Of rows 1, 3, 5, 7; rows 5 and 7 are 0 where `kRows` is 4.
template <std::size_t kRows>
HWY_INLINE OddPart odd_part(const Shorts* rows) {
  if constexpr (kRows == 4) {
    const RowPair pair(rows[1], rows[3]);
    return {{pair.times(k1_501 - k0_899 + k1_175 - k0_390, k1_175),
             pair.times(k1_175, k3_072 - k2_562 + k1_175 - k1_961),
             pair.times(k1_175 - k0_390, k1_175 - k2_562),
             pair.times(k1_175 - k0_899, k1_175 - k1_961)}};
  } else {
    const RowPair cross(hn::Add(rows[7], rows[3]), hn::Add(rows[5], rows[1]));
    const Halves z3 = cross.times(k1_175 - k1_961, k1_175);
    const Halves z4 = cross.times(k1_175, k1_175 - k0_390);
    const RowPair outer(rows[7], rows[1]);
    const RowPair inner(rows[5], rows[3]);
    return {{add(outer.times(-k0_899, k1_501 - k0_899), z4),
             add(inner.times(-k2_562, k3_072 - k2_562), z3),
             add(inner.times(k2_053 - k2_562, -k2_562), z4),
             add(outer.times(k0_298 - k0_899, -k0_899), z3)}};
  }
}

/// Down the columns of `kRows` rows, in place; eight rows come out.
template <int kBits, std::size_t kRows>
HWY_INLINE void transform(Shorts* rows) {
  const EvenPart even = even_part<kBits, kRows>(rows);
  const OddPart odd = odd_part<kRows>(rows);
  for (std::size_t i = 0; i < 4; ++i) {
    rows[i] = descale<kBits>(add(even.sums[i], odd.sums[i]));
    rows[7 - i] = descale<kBits>(subtract(even.sums[i], odd.sums[i]));
  }
}

/// Three times the same shuffle of eight rows turns rows into columns.
HWY_INLINE void transpose(Shorts* rows) {
  for (int pass = 0; pass < 3; ++pass) {
    Shorts mixed[8];
    for (std::size_t i = 0; i < 4; ++i) {
      mixed[2 * i] = hn::InterleaveLower(kShorts, rows[i], rows[i + 4]);
      mixed[2 * i + 1] = hn::InterleaveUpper(kShorts, rows[i], rows[i + 4]);
    }
    for (std::size_t i = 0; i < 8; ++i) rows[i] = mixed[i];
  }
}

// ---- Samples ----

/// Bytes of a, then of b, in each half; clamped.
HWY_INLINE Bytes to_bytes(Shorts a, Shorts b) {
#if HWY_MAX_BYTES >= 32
  return Bytes{_mm256_packus_epi16(a.raw, b.raw)};
#else
  constexpr hn::Half<decltype(kBytes)> kHalf;
  return hn::Combine(kBytes, hn::DemoteTo(kHalf, b), hn::DemoteTo(kHalf, a));
#endif
}

HWY_INLINE Bytes interleave_words(Bytes a, Bytes b, bool upper) {
  const auto x = hn::BitCast(kInts, a);
  const auto y = hn::BitCast(kInts, b);
  return hn::BitCast(kBytes,
                     upper ? hn::InterleaveUpper(kInts, x, y) : hn::InterleaveLower(kInts, x, y));
}

/// `pair` holds rows `row` and `row + 1` of each block.
HWY_INLINE void store_rows(Bytes pair, std::size_t block_count, std::uint8_t* to,
                           std::size_t row_bytes) {
#if HWY_MAX_BYTES >= 32
  const auto first = hn::BitCast(kLongs2, hn::LowerHalf(kBytes16, pair));
  if (block_count == 2) {
    const auto second = hn::BitCast(kLongs2, hn::UpperHalf(kBytes16, pair));
    hn::StoreU(hn::BitCast(kBytes16, hn::InterleaveLower(kLongs2, first, second)), kBytes16, to);
    hn::StoreU(hn::BitCast(kBytes16, hn::InterleaveUpper(kLongs2, first, second)), kBytes16,
               to + row_bytes);
    return;
  }
#else
  static_cast<void>(block_count);
  const auto first = hn::BitCast(kLongs2, pair);
#endif
  const std::uint64_t upper = hn::GetLane(first);
  const std::uint64_t lower = hn::GetLane(hn::InterleaveUpper(kLongs2, first, first));
  std::memcpy(to, &upper, sizeof upper);
  std::memcpy(to + row_bytes, &lower, sizeof lower);
}

/// Columns of samples, around 0, to rows of bytes.
HWY_INLINE void store_columns(const Shorts* columns, std::size_t block_count, std::uint8_t* to,
                              std::size_t row_bytes) {
  const Shorts middle = hn::Set(kShorts, 128);
  Bytes p[4];
  for (std::size_t i = 0; i < 4; ++i) {
    p[i] = to_bytes(hn::SaturatedAdd(columns[i], middle), hn::SaturatedAdd(columns[i + 4], middle));
  }
  const Bytes even = hn::InterleaveLower(kBytes, p[0], p[2]);
  const Bytes odd = hn::InterleaveLower(kBytes, p[1], p[3]);
  const Bytes late_even = hn::InterleaveUpper(kBytes, p[0], p[2]);
  const Bytes late_odd = hn::InterleaveUpper(kBytes, p[1], p[3]);
  const Bytes a = hn::InterleaveLower(kBytes, even, odd);            // Columns 0 to 3, rows 0 to 3.
  const Bytes b = hn::InterleaveUpper(kBytes, even, odd);            // Rows 4 to 7.
  const Bytes c = hn::InterleaveLower(kBytes, late_even, late_odd);  // Columns 4 to 7.
  const Bytes d = hn::InterleaveUpper(kBytes, late_even, late_odd);
  store_rows(interleave_words(a, c, false), block_count, to, row_bytes);
  store_rows(interleave_words(a, c, true), block_count, to + 2 * row_bytes, row_bytes);
  store_rows(interleave_words(b, d, false), block_count, to + 4 * row_bytes, row_bytes);
  store_rows(interleave_words(b, d, true), block_count, to + 6 * row_bytes, row_bytes);
}

/// Blocks whose coefficients behind `8 * kParts` are 0, and those outside the first `kRows` rows
/// and columns. Adds to `peak` the magnitudes of the first row's levels.
template <std::size_t kParts, std::size_t kRows>
HWY_INLINE void transform_blocks(const std::int16_t* const* blocks, std::size_t block_count,
                                 const std::int16_t* quant, std::uint8_t* to, std::size_t row_bytes,
                                 Shorts& peak) {
  Shorts parts[kParts];
  for (std::size_t i = 0; i < kParts; ++i) {
    parts[i] = hn::Mul(load_part(blocks, i), hn::LoadDup128(kShorts, quant + 8 * i));
  }
  Shorts rows[8];
  gather_rows<kParts, kRows>(parts, rows);
  for (std::size_t i = kRows; i < 8; ++i) rows[i] = hn::Zero(kShorts);
  peak = hn::Or(peak, hn::Xor(rows[0], hn::ShiftRight<15>(rows[0])));
  transform<kFractionBits - kFirstPassBits, kRows>(rows);
  transpose(rows);
  transform<kFractionBits + kFirstPassBits + 3, kRows>(rows);
  store_columns(rows, block_count, to, row_bytes);
}

/// The bits that a level of 2^13 or more has set, beside its sign: from there on the first pass
/// saturates or wraps, as its shortcuts will have it.
constexpr int kWildBits = 0x6000;

/// One level everywhere. Returns the level's wild bits.
HWY_INLINE int fill_block(std::int16_t dc, std::int16_t quant, std::uint8_t* to,
                          std::size_t row_bytes) {
  const auto level = static_cast<std::int16_t>(dc * quant);
  const int around_zero = (level * (1 << kFirstPassBits) + 16) >> 5;
  const int clamped = around_zero < -128 ? 0 : around_zero > 127 ? 255 : around_zero + 128;
  const std::uint64_t samples =
      static_cast<std::uint64_t>(clamped) * std::uint64_t{0x0101010101010101};
  for (int row = 0; row < 8; ++row) std::memcpy(to + row * row_bytes, &samples, sizeof samples);
  return (level ^ (level >> 15)) & kWildBits;
}

bool inverse_dct(const std::int16_t* coefficients, const std::uint8_t* last, std::size_t count,
                 const std::int16_t* quant, std::uint8_t* samples, std::size_t row_bytes) {
  Shorts peak = hn::Zero(kShorts);
  int flat_peak = 0;
  for (std::size_t i = 0; i < count; i += kBlocks) {
    const std::size_t block_count = kBlocks < count - i ? kBlocks : count - i;
    const std::int16_t* blocks[kBlocks];
    unsigned most = 0;
    for (std::size_t k = 0; k < kBlocks; ++k) {
      const std::size_t block = i + (k < block_count ? k : 0);
      blocks[k] = coefficients + 64 * block;
      most = last[block] > most ? last[block] : most;
    }
    std::uint8_t* to = samples + 8 * i;
    if (most == 0) {
      for (std::size_t k = 0; k < block_count; ++k) {
        flat_peak |= fill_block(blocks[k][0], quant[0], to + 8 * k, row_bytes);
      }
    } else if (most < 8) {
      transform_blocks<1, 4>(blocks, block_count, quant, to, row_bytes, peak);
    } else if (most < 10) {
      transform_blocks<2, 4>(blocks, block_count, quant, to, row_bytes, peak);
    } else if (most < 32) {
      transform_blocks<4, 8>(blocks, block_count, quant, to, row_bytes, peak);
    } else {
      transform_blocks<8, 8>(blocks, block_count, quant, to, row_bytes, peak);
    }
  }
  const Shorts wild = hn::And(peak, hn::Set(kShorts, kWildBits));
  return flat_peak == 0 && hn::AllTrue(kShorts, hn::Eq(wild, hn::Zero(kShorts)));
}
