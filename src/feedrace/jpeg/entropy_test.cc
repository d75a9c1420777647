// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/entropy.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "feedrace/jpeg/scan.h"
#include "feedrace/jpeg/test_jpegs.h"
#include "feedrace/jpeg/test_streams.h"

namespace feedrace::jpeg {
namespace {

using testing::ac_symbols;
using testing::append;
using testing::BitWriter;
using testing::Block;
using testing::Bytes;
using testing::bytes_of;
using testing::dc_symbols;
using testing::header_of;
using testing::JpegKind;
using testing::libjpeg_blocks;
using testing::PlainCodes;
using testing::random_table;

/// Coefficients of one component, in rows of blocks as ours lays them out.
struct Plane {
  std::size_t across = 0;
  std::size_t step = 0;
  std::vector<std::int16_t> coefficients;
  std::vector<std::uint8_t> last;
};

std::array<Plane, 3> make_planes(const Frame& frame) {
  std::array<Plane, 3> planes;
  for (std::size_t i = 0; i < frame.component_count; ++i) {
    Plane& plane = planes.at(i);
    plane.across = frame.mcu_columns() * frame.components.at(i).across;
    plane.step = plane.across * kBlockSize + kSpareCoefficients;
    const std::size_t down = frame.mcu_rows() * frame.components.at(i).down;
    plane.coefficients.assign(down * plane.step, 0x5a5a);
    plane.last.assign(down * plane.across, 0xff);
  }
  return planes;
}

void aim(Scan& scan, const Frame& frame, std::array<Plane, 3>& planes, std::size_t mcu_row) {
  std::size_t next = 0;
  for (std::size_t i = 0; i < frame.component_count; ++i) {
    Plane& plane = planes.at(i);
    const Component& component = frame.components.at(i);
    for (std::size_t y = 0; y < component.down; ++y) {
      for (std::size_t x = 0; x < component.across; ++x) {
        McuBlock& block = scan.blocks()[next++];
        const std::size_t row = mcu_row * component.down + y;
        block.coefficients = &plane.coefficients[row * plane.step + x * kBlockSize];
        block.last = &plane.last[row * plane.across + x];
        block.step = component.across;
      }
    }
  }
}

/// All coefficients by one set of loops against libjpeg's; empty when they are the same.
std::string difference(const EntropyKernels& kernels, const Bytes& encoded) {
  Frame frame;
  if (const char* unusual = read_frame(encoded, frame)) return unusual;
  TableCache tables;
  Scan scan(kernels);
  if (!scan.start(encoded, frame, tables)) return "not a table";
  std::array<Plane, 3> planes = make_planes(frame);
  for (std::size_t row = 0; row < frame.mcu_rows(); ++row) {
    aim(scan, frame, planes, row);
    if (!scan.decode(frame.mcu_columns())) return fmt::format("damage in MCU row {}", row);
  }
  if (!scan.is_finished()) return "not finished";
  const auto expected = libjpeg_blocks(encoded);
  for (std::size_t i = 0; i < frame.component_count; ++i) {
    const Plane& plane = planes.at(i);
    if (expected.at(i).size() != plane.last.size()) return "number of blocks";
    for (std::size_t b = 0; b < plane.last.size(); ++b) {
      const std::size_t begin = b / plane.across * plane.step + b % plane.across * kBlockSize;
      for (std::size_t k = 0; k < kBlockSize; ++k) {
        const std::int16_t wanted = expected.at(i).at(b).at(k);
        const std::int16_t found = plane.coefficients.at(begin + k);
        if (found != wanted || (wanted != 0 && k > plane.last.at(b))) {
          return fmt::format("component {} block {} coefficient {}: {} instead of {}, last {}", i,
                             b, k, found, wanted, plane.last.at(b));
        }
      }
    }
  }
  return "";
}

TEST(Entropy, EverySetOfLoopsReadsLibjpegsCoefficients) {
  SampleRandom random(1, 0, 0, 0);
  int read_count = 0;
  for (int i = 0; i < 600; ++i) {
    const JpegKind kind = testing::random_kind(random);
    const Bytes encoded = testing::make_jpeg(kind);
    Frame frame;
    if (read_frame(encoded, frame) != nullptr) continue;  // Samplings that are libjpeg's.
    ++read_count;
    for (const EntropyKernels* kernels : entropy_kernels()) {
      ASSERT_EQ(difference(*kernels, encoded), "") << kernels->name << " " << kind.text();
    }
  }
  EXPECT_GT(read_count, 300);
}

/// A block of codes that no encoder would choose: sizes up to 15 bits, chains of ZRL, values that
/// are smaller than their size may be, an end at the last coefficient or before.
void put_block(BitWriter& writer, const PlainCodes& dc, const PlainCodes& ac, std::int32_t& level,
               SampleRandom& random) {
  const auto value_of = [&](unsigned size) {  // Of exactly that size.
    if (size == 0) return 0;
    const auto magnitude =
        static_cast<std::int32_t>((1U << (size - 1)) | random.below(1U << (size - 1)));
    return random.below(2) == 0 ? magnitude : -magnitude;
  };
  const auto dc_size = static_cast<unsigned>(random.below(16));
  std::int32_t difference = value_of(dc_size);
  if (std::abs(level + difference) > 30'000) difference = -difference;
  level += difference;
  writer.put_symbol(dc, dc_size);
  writer.put_value(difference, dc_size);
  const auto end = static_cast<unsigned>(random.below(4) == 0 ? 64 : 1 + random.below(64));
  const std::uint64_t longest_run = 1 + random.below(16);
  const std::uint64_t largest_size = 1 + random.below(15);
  unsigned at = 1;
  while (at < end) {
    if (random.below(8) == 0 && at + 16 <= end) {
      writer.put_symbol(ac, 0xf0);
      at += 16;
      continue;
    }
    auto run = static_cast<unsigned>(random.below(longest_run));
    if (at + run >= end) run = end - 1 - at;
    if (run > 15) run = 15;
    const auto size = static_cast<unsigned>(1 + random.below(largest_size));
    writer.put_symbol(ac, run << 4 | size);
    writer.put_value(value_of(size), size);
    at += run + 1;
  }
  if (at < kBlockSize) writer.put_symbol(ac, 0x00);
}

/// Three components, or one, of such blocks.
Bytes make_wild(SampleRandom& random) {
  Frame frame;
  frame.width_px = static_cast<std::uint32_t>(1 + random.below(60));
  frame.height_px = static_cast<std::uint32_t>(1 + random.below(60));
  frame.component_count = random.below(3) == 0 ? 1 : 3;
  if (frame.component_count == 3) {
    frame.components[0].across = frame.most_across =
        static_cast<std::uint32_t>(1 + random.below(2));
    frame.components[0].down = frame.most_down = static_cast<std::uint32_t>(1 + random.below(2));
  }
  frame.restart_interval = static_cast<std::uint32_t>(random.below(2) * (1 + random.below(5)));
  for (auto& quant : frame.quant) quant.fill(1);
  const double bias = random.uniform();
  std::vector<PlainCodes> codes;
  for (std::uint32_t i = 0; i < 4; ++i) {
    frame.dc.at(i) = random_table(random, dc_symbols(15), bias);
    frame.ac.at(i) = random_table(random, ac_symbols(15), bias);
    codes.emplace_back(frame.dc.at(i));
    codes.emplace_back(frame.ac.at(i));
  }
  for (Component& component : frame.components) {
    component.dc_table = static_cast<std::uint32_t>(random.below(4));
    component.ac_table = static_cast<std::uint32_t>(random.below(4));
  }
  Bytes encoded = header_of(frame);
  BitWriter writer;
  std::array<std::int32_t, 3> levels{};
  const std::uint32_t mcu_count = frame.mcu_columns() * frame.mcu_rows();
  for (std::uint32_t mcu = 0; mcu < mcu_count; ++mcu) {
    if (frame.restart_interval > 0 && mcu > 0 && mcu % frame.restart_interval == 0) {
      append(encoded, writer.take());
      append(encoded, bytes_of({0xff, 0xd0 + (mcu / frame.restart_interval - 1) % 8}));
      levels = {};
    }
    for (std::uint32_t i = 0; i < frame.component_count; ++i) {
      const Component& component = frame.components.at(i);
      for (std::uint32_t k = 0; k < component.across * component.down; ++k) {
        put_block(writer, codes[2 * component.dc_table], codes[2 * component.ac_table + 1],
                  levels.at(i), random);
      }
    }
  }
  append(encoded, writer.take());
  append(encoded, bytes_of({0xff, 0xd9}));
  return encoded;
}

TEST(Entropy, CodesThatNoEncoderWritesAreReadAsLibjpegReadsThem) {
  SampleRandom random(2, 0, 0, 0);
  for (int i = 0; i < 600; ++i) {
    const Bytes encoded = make_wild(random);
    for (const EntropyKernels* kernels : entropy_kernels()) {
      ASSERT_EQ(difference(*kernels, encoded), "") << kernels->name << " case " << i;
    }
  }
}

/// Walking takes the same bits as decoding: after any number of MCUs walked the rest is the same.
TEST(Entropy, WhatFollowsMcusThatWereWalkedOverIsTheSame) {
  SampleRandom random(3, 0, 0, 0);
  for (int i = 0; i < 200; ++i) {
    const Bytes encoded =
        i % 2 == 0 ? make_wild(random) : testing::make_jpeg(testing::random_kind(random));
    Frame frame;
    if (read_frame(encoded, frame) != nullptr) continue;
    const auto expected = libjpeg_blocks(encoded);
    for (const EntropyKernels* kernels : entropy_kernels()) {
      TableCache tables;
      Scan scan(*kernels);
      ASSERT_TRUE(scan.start(encoded, frame, tables));
      std::array<Plane, 3> planes = make_planes(frame);
      const auto row = static_cast<std::uint32_t>(random.below(frame.mcu_rows()));
      ASSERT_TRUE(scan.walk(std::size_t{row} * frame.mcu_columns()));
      aim(scan, frame, planes, row);
      ASSERT_TRUE(scan.decode(frame.mcu_columns()));
      ASSERT_TRUE(scan.walk(std::size_t{frame.mcu_rows() - row - 1} * frame.mcu_columns()));
      EXPECT_TRUE(scan.is_finished());
      for (std::size_t c = 0; c < frame.component_count; ++c) {
        const Plane& plane = planes.at(c);
        const std::size_t first = row * frame.components.at(c).down;
        for (std::size_t b = first * plane.across;
             b < (first + frame.components.at(c).down) * plane.across; ++b) {
          const std::size_t begin = b / plane.across * plane.step + b % plane.across * kBlockSize;
          const Block& wanted = expected.at(c).at(b);
          ASSERT_TRUE(std::equal(wanted.begin(), wanted.end(),
                                 plane.coefficients.begin() + static_cast<std::ptrdiff_t>(begin)))
              << kernels->name << " case " << i << " component " << c << " block " << b;
        }
      }
    }
  }
}

}  // namespace
}  // namespace feedrace::jpeg
