// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "feedrace/jpeg/entropy.h"

// Highway compiles this file once for each instruction set.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "feedrace/jpeg/entropy_hwy.cc"
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3 | HWY_AVX3_DL)  // AVX3 has nothing to add.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wpedantic"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
#pragma GCC diagnostic pop

// Vectors of a known size only.
#if HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128 && !HWY_HAVE_SCALABLE

HWY_BEFORE_NAMESPACE();
namespace feedrace::jpeg::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr hn::Simd<std::int16_t, 4, 0> kFourShorts;
constexpr hn::Simd<std::int8_t, 4, 0> kFourBytes;

static_assert(AcTable::kLanes == 4);
// Two answers of the AC table, and one of it behind one of the DC table, need one refill.
static_assert(2 * (AcTable::kIndexBits + 15) <= 56);
static_assert(AcTable::kIndexBits + 15 + DcTable::kIndexBits + 15 <= 56);

/// Not memset: g++ makes `rep stos` of it, which alone takes as long as three coefficients.
HWY_INLINE void clear(std::int16_t* block) {
  constexpr hn::CappedTag<std::int16_t, 16> kMany;
  for (std::size_t i = 0; i < kBlockSize; i += hn::MaxLanes(kMany)) {
    hn::StoreU(hn::Zero(kMany), kMany, block + i);
  }
}

HWY_INLINE std::uint64_t load_bits(const std::uint8_t* from) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, from, sizeof bits);
  return __builtin_bswap64(bits);
}

/// At least 56 bits are there afterwards. The bits of a byte that is not wholly counted are there
/// too, and are set again by the next refill.
HWY_INLINE void refill(BitCursor& in) {
  in.bits |= load_bits(in.next) >> in.available;
  in.next += (63 - in.available) >> 3;
  in.available |= 56;
}

HWY_INLINE void drop(BitCursor& in, unsigned count) {
  in.bits <<= count;
  in.available -= count;
}

/// The bits that a packed entry takes. Its lowest six bits are what a shift looks at anyway, so the
/// next index does not wait for them to be cut out.
HWY_INLINE void drop_entry(BitCursor& in, std::uint64_t packed) {
  in.bits <<= packed & 63;
  in.available -= static_cast<unsigned>(packed & 0xffU);
}

/// The upper `count` bits, 1 to 63.
HWY_INLINE std::uint64_t head(std::uint64_t bits, unsigned count) {
  return bits >> ((64 - count) & 63);
}

enum class Answer : std::uint8_t { kMore, kEnd, kDamaged };

/// What a code that the tables do not answer led to. By value: a cursor whose address is taken can
/// not live in registers.
struct Single {
  BitCursor in;
  std::int32_t value = 0;  ///< Of a DC difference.
  unsigned at = 0;
  Answer answer = Answer::kDamaged;
};

HWY_NOINLINE Single read_long_dc(BitCursor in, const CodeRanges& codes) {
  const CodeRanges::Code code = codes.find(in.bits);
  if (code.length == 0) return {in};
  drop(in, code.length);
  std::int32_t value = 0;
  if (code.symbol > 0) {
    value = extend(static_cast<std::uint32_t>(head(in.bits, code.symbol)), code.symbol);
    drop(in, code.symbol);
  }
  refill(in);
  return {in, value, 1, Answer::kMore};
}

/// False: no code begins like this.
HWY_INLINE bool read_dc(BitCursor& in, const DcTable& table, std::int32_t& value) {
  const DcTable::Entry entry = table.entries[in.bits >> (64 - DcTable::kIndexBits)];
  if (HWY_LIKELY(entry.length != 0)) {
    const auto rest =
        static_cast<std::int32_t>(head(in.bits, entry.length) & kDcRest.of[entry.length]);
    value += entry.value + rest;
    drop(in, entry.length);
    return true;
  }
  const Single read = read_long_dc(in, table.codes);
  in = read.in;
  value += read.value;
  return read.answer == Answer::kMore;
}

/// One code by its length: where the table does not know it, or where its answer would lead behind
/// the block's end.
template <bool kStores>
HWY_NOINLINE Single read_single(BitCursor in, const CodeRanges& codes, std::int16_t* block,
                                unsigned at) {
  refill(in);
  const CodeRanges::Code code = codes.find(in.bits);
  if (code.length == 0) return {in};
  const unsigned run = code.symbol >> 4;
  const unsigned size = code.symbol & 15U;
  drop(in, code.length);
  if (size == 0) {
    if (run != 15) return {in, 0, at, Answer::kEnd};
    at += 16;
  } else {
    at += run;
    if (at >= kBlockSize) return {in};
    const std::int32_t value = extend(static_cast<std::uint32_t>(head(in.bits, size)), size);
    drop(in, size);
    if (kStores) block[at] = static_cast<std::int16_t>(value);
    ++at;
  }
  refill(in);
  if (at > kBlockSize) return {in};
  return {in, 0, at, at == kBlockSize ? Answer::kEnd : Answer::kMore};
}

/// What the AC table answers, from position `at` of the block on; needs 26 bits.
template <bool kStores>
HWY_INLINE Answer read_run(BitCursor& in, const AcTable& table, std::int16_t* block, unsigned& at) {
  const std::uint64_t* entry = &table.entries[in.bits >> (64 - AcTable::kIndexBits)];
  const std::uint64_t packed = *entry;
  const unsigned place = (packed >> 8) & 0xffU;
  const unsigned length = packed & 0xffU;
  const unsigned last = at + place;
  const auto value = static_cast<std::int16_t>(static_cast<std::int32_t>(packed) >> 16);
  const auto rest = static_cast<std::int32_t>(head(in.bits, length) & kAcRest.of[length]);
  if (kStores) {
    const auto* lanes = reinterpret_cast<const std::int8_t*>(entry) + 4;
    hn::StoreU(hn::PromoteTo(kFourShorts, hn::LoadU(kFourBytes, lanes)), kFourShorts, block + at);
  }
  if (HWY_LIKELY(last < kBlockSize - 1)) {
    if (kStores) block[last] = static_cast<std::int16_t>(value + rest);
    drop_entry(in, packed);
    at = last + 1;
    return Answer::kMore;
  }
  // The usual end, with and without coefficients in front, in one stroke: nobody can foretell
  // which. An end behind the 64th coefficient is none: those bits are the next block's.
  const unsigned ends = (place & AcTable::kEnds) / AcTable::kEnds;
  const unsigned is_empty = (place & AcTable::kEmpty) / AcTable::kEmpty;
  const unsigned unflagged = at + (place & AcTable::kPlaceMask);
  if (HWY_LIKELY(unflagged < kBlockSize - ends + is_empty)) {
    if (kStores) block[unflagged] = static_cast<std::int16_t>(value + rest);
    drop_entry(in, packed);
    at = unflagged + 1 - is_empty;
    return Answer::kEnd;
  }
  const Single read = read_single<kStores>(in, table.codes, block, at);
  in = read.in;
  at = read.at;
  return read.answer;
}

template <bool kStores>
HWY_INLINE bool read_block(BitCursor& in, const McuBlock& plan, std::int32_t& dc,
                           std::int16_t* block, std::uint8_t* last) {
  refill(in);
  if (!read_dc(in, *plan.dc, dc)) return false;
  if (kStores) {
    clear(block);
    block[0] = static_cast<std::int16_t>(dc);
  }
  unsigned at = 1;
  const AcTable& table = *plan.ac;
  Answer answer = Answer::kMore;
  for (;;) {
    answer = read_run<kStores>(in, table, block, at);
    if (answer != Answer::kMore) break;
    refill(in);
    answer = read_run<kStores>(in, table, block, at);
    if (answer != Answer::kMore) break;
  }
  if (kStores) *last = static_cast<std::uint8_t>(at - 1);
  return answer == Answer::kEnd;
}

template <bool kStores>
void read_mcus(BitCursor& cursor, const std::uint8_t* limit, McuRun& run) {
  BitCursor in = cursor;
  while (run.count > 0 && in.next <= limit) {
    for (McuBlock& block : run.blocks) {
      if (!read_block<kStores>(in, block, run.dc[block.component], block.coefficients,
                               block.last)) {
        run.is_damaged = true;
        cursor = in;
        return;
      }
      if (kStores) {
        block.coefficients += block.step * kBlockSize;
        block.last += block.step;
      }
    }
    --run.count;
  }
  cursor = in;
}

void decode_mcus(BitCursor& cursor, const std::uint8_t* limit, McuRun& run) {
  read_mcus<true>(cursor, limit, run);
}

void walk_mcus(BitCursor& cursor, const std::uint8_t* limit, McuRun& run) {
  read_mcus<false>(cursor, limit, run);
}

}  // namespace

const EntropyKernels* kernels() {
  static const EntropyKernels kSet = {hwy::TargetName(HWY_TARGET), decode_mcus, walk_mcus};
  return &kSet;
}

}  // namespace feedrace::jpeg::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif

#if HWY_ONCE

namespace feedrace::jpeg {

std::vector<const EntropyKernels*> entropy_kernels() {
  const std::int64_t supported = hwy::SupportedTargets() & HWY_TARGETS;
  std::vector<const EntropyKernels*> sets;
#if HWY_TARGETS & HWY_NEON
  if (supported & HWY_NEON) sets.push_back(N_NEON::kernels());
#endif
#if HWY_TARGETS & HWY_SSE4
  if (supported & HWY_SSE4) sets.push_back(N_SSE4::kernels());
#endif
#if HWY_TARGETS & HWY_AVX2
  if (supported & HWY_AVX2) sets.push_back(N_AVX2::kernels());
#endif
  static_cast<void>(supported);
  return sets;
}

}  // namespace feedrace::jpeg
#endif
