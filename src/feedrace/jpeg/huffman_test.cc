// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/huffman.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "feedrace/jpeg/scan.h"
#include "feedrace/jpeg/test_jpegs.h"
#include "feedrace/jpeg/test_streams.h"

namespace feedrace::jpeg {
namespace {

using testing::ac_symbols;
using testing::Block;
using testing::Bytes;
using testing::dc_symbols;
using testing::PlainCodes;
using testing::PlainReader;
using testing::random_table;

/// One code of one bit.
HuffmanSpec single(std::uint8_t symbol) {
  HuffmanSpec spec;
  spec.counts[0] = 1;
  spec.symbols[0] = symbol;
  return spec;
}

/// Grey blocks one after the other.
Frame frame_of(const HuffmanSpec& dc, const HuffmanSpec& ac) {
  Frame frame;
  frame.width_px = frame.height_px = 64;
  frame.component_count = 1;
  frame.colour = ColourModel::kGrey;
  frame.dc[0] = dc;
  frame.ac[0] = ac;
  return frame;
}

/// Two tables and their codes.
struct Pair {
  Frame frame;
  PlainCodes dc;
  PlainCodes ac;
  Pair(const HuffmanSpec& dc_spec, const HuffmanSpec& ac_spec)
      : frame(frame_of(dc_spec, ac_spec)), dc(dc_spec), ac(ac_spec) {}
};

/// Blocks of `data` by the tables and bit by bit, until one of both stops.
std::string difference(Scan& scan, TableCache& tables, const Pair& pair, const Bytes& data) {
  PlainReader plain(data, pair.dc, pair.ac);
  if (!scan.start(data, pair.frame, tables)) return "not a table";
  std::array<std::int16_t, kBlockSize + kSpareCoefficients> coefficients{};
  for (int i = 0; i < 64; ++i) {
    std::uint8_t last = 0;
    McuBlock& block = scan.blocks()[0];
    block.coefficients = coefficients.data();
    block.last = &last;
    block.step = 0;
    const bool is_read = scan.decode(1);
    const auto expected = plain.read_block();
    if (is_read != expected.has_value()) {
      return fmt::format("block {}: {}", i, is_read ? "read over damage" : "damage seen");
    }
    if (!is_read) return "";
    for (std::size_t k = 0; k < kBlockSize; ++k) {
      if (coefficients.at(k) != expected->at(k)) {
        return fmt::format("block {}: coefficient {} is {} instead of {}", i, k, coefficients.at(k),
                           expected->at(k));
      }
      if (k > last && expected->at(k) != 0) return fmt::format("block {}: last {}", i, last);
    }
  }
  return "";
}

// A sanitizer makes each ten times as slow.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr unsigned kStep = 13;
#else
constexpr unsigned kStep = 1;
#endif

/// Every 16 bits at the start of a block, and random ones behind.
void expect_every_prefix(const HuffmanSpec& dc, const HuffmanSpec& ac, SampleRandom& random) {
  const Pair pair(dc, ac);
  TableCache tables;
  for (const EntropyKernels* kernels : entropy_kernels()) {
    Scan scan(*kernels);
    for (unsigned prefix = 0; prefix < 1U << 16; prefix += kStep) {
      testing::BitWriter writer;
      writer.put(prefix, 16);
      for (int i = 0; i < 3; ++i) writer.put(random.next(), 32);
      ASSERT_EQ(difference(scan, tables, pair, writer.take()), "")
          << kernels->name << " prefix " << prefix;
    }
  }
}

TEST(Huffman, EveryPrefixOfRandomTablesIsReadAsBitByBit) {
  SampleRandom random(1, 0, 0, 0);
  for (const double bias : {0.0, 0.5, 1.0}) {
    expect_every_prefix(random_table(random, dc_symbols(15), bias), single(0), random);
    expect_every_prefix(single(0), random_table(random, ac_symbols(15), bias), random);
  }
}

TEST(Huffman, FewCodesThatLeaveMostBitsWithoutMeaning) {
  SampleRandom random(2, 0, 0, 0);
  HuffmanSpec spec;
  spec.counts[0] = spec.counts[8] = spec.counts[10] = spec.counts[15] = 1;
  spec.symbols = {0x01, 0x00, 0x0f, 0xf0};
  expect_every_prefix(single(1), spec, random);
  spec.symbols = {0x00, 0x0f, 0x01, 0x0b};
  expect_every_prefix(spec, single(0), random);
}

TEST(Huffman, CodesAllOf16Bits) {
  SampleRandom random(3, 0, 0, 0);
  HuffmanSpec spec;
  spec.counts[15] = 255;
  for (std::size_t i = 0; i < 255; ++i) spec.symbols[i] = static_cast<std::uint8_t>(i + 1);
  expect_every_prefix(single(0), spec, random);
}

TEST(Huffman, CodesOfEveryLengthAtTheEdgeOfTheirSpace) {
  SampleRandom random(4, 0, 0, 0);
  HuffmanSpec spec;  // 0, 10, 110, ...: the last of 16 bits is all ones but for the last.
  for (std::size_t i = 0; i < 16; ++i) {
    spec.counts[i] = 1;
    spec.symbols[i] = static_cast<std::uint8_t>(15 - i);
  }
  expect_every_prefix(spec, single(0), random);
  expect_every_prefix(single(0), spec, random);
}

TEST(Huffman, TablesThatAreNoneAreRefused) {
  TableCache tables;
  for (std::size_t length = 1; length <= 8; ++length) {
    HuffmanSpec spec;
    // All codes of that length: the last is all ones, as libjpeg won't have it.
    const auto all = static_cast<std::uint8_t>((1U << length) - 1);
    spec.counts[length - 1] = all;
    EXPECT_NE(tables.ac(spec), nullptr) << length;
    EXPECT_NE(tables.dc(spec), nullptr) << length;
    if (length == 8) break;  // 256 do not fit the count.
    ++spec.counts[length - 1];
    EXPECT_EQ(tables.ac(spec), nullptr) << length;
    EXPECT_EQ(tables.dc(spec), nullptr) << length;
    ++spec.counts[length - 1];
    EXPECT_EQ(tables.ac(spec), nullptr) << length;
    spec.counts[length - 1] = all;
    spec.counts[length] = 2;  // The two that a longer length has left; the second is all ones.
    EXPECT_EQ(tables.ac(spec), nullptr) << length;
    spec.counts[length] = 1;
    EXPECT_NE(tables.ac(spec), nullptr) << length;
  }
}

TEST(Huffman, MoreThan256CodesAreRefused) {
  HuffmanSpec spec;
  spec.counts[11] = 200;
  spec.counts[12] = 57;
  TableCache tables;
  EXPECT_EQ(tables.ac(spec), nullptr);
  spec.counts[12] = 56;
  EXPECT_NE(tables.ac(spec), nullptr);
}

TEST(Huffman, DcSizesAbove15BitsAreRefused) {
  TableCache tables;
  EXPECT_NE(tables.dc(single(15)), nullptr);
  for (const int size : {16, 17, 255}) {
    EXPECT_EQ(tables.dc(single(static_cast<std::uint8_t>(size))), nullptr) << size;
  }
}

TEST(Huffman, AnEmptyTableHasNoCode) {
  Scan scan(*entropy_kernels().back());
  TableCache tables;
  const Bytes zeros(100, std::byte{0});
  EXPECT_EQ(difference(scan, tables, Pair(HuffmanSpec{}, single(0)), zeros), "");
  EXPECT_EQ(difference(scan, tables, Pair(single(0), HuffmanSpec{}), zeros), "");
}

/// More tables in turn than are kept, some of which are none: each answer is its own table's.
TEST(Huffman, KeptTablesAreToldApartByTheirContent) {
  SampleRandom random(5, 0, 0, 0);
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < TableCache::kKept + 9; ++i) {
    pairs.emplace_back(random_table(random, dc_symbols(), 0.5),
                       random_table(random, ac_symbols(), 0.5));
  }
  HuffmanSpec none;
  none.counts[0] = 3;
  Scan scan(*entropy_kernels().back());
  TableCache tables;
  for (int i = 0; i < 2000; ++i) {
    const Pair& pair = pairs.at(random.below(pairs.size()));
    if (i % 7 == 0) {
      EXPECT_EQ(tables.ac(none), nullptr);
    }
    testing::BitWriter writer;
    for (int k = 0; k < 20; ++k) writer.put(random.next(), 32);
    ASSERT_EQ(difference(scan, tables, pair, writer.take()), "") << i;
  }
  EXPECT_LE(tables.memory_bytes(), TableCache::kKept * (sizeof(DcTable) + sizeof(AcTable)));
}

}  // namespace
}  // namespace feedrace::jpeg
