// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <jpeglib.h>

#include "feedrace/jpeg/huffman.h"
#include "feedrace/random.h"

/// Made-up JPEGs of every kind that ours decodes, by libjpeg's encoder.
namespace feedrace::jpeg::testing {

using Bytes = std::vector<std::byte>;

/// A table of `symbols` in random order, with random code lengths of up to 16 bits and no code that
/// is all ones. `depth_bias`, 0 to 1: how lopsided the tree of codes is.
inline HuffmanSpec random_table(SampleRandom& random, std::vector<std::uint8_t> symbols,
                                double depth_bias) {
  std::vector<unsigned> leaves = {0};
  while (leaves.size() < symbols.size() + 1) {  // One is left out: it would be all ones.
    std::size_t split = random.below(leaves.size());
    if (random.uniform() < depth_bias) split = leaves.size() - 1;
    // As long as the shorter leaves can still be split, lopsided trees may go down to 16.
    while (leaves[split] >= 16) split = random.below(leaves.size());
    ++leaves[split];
    leaves.push_back(leaves[split]);
  }
  std::sort(leaves.begin(), leaves.end());
  leaves.pop_back();
  HuffmanSpec spec;
  for (const unsigned length : leaves) ++spec.counts[length - 1];
  for (std::size_t i = symbols.size(); i > 1; --i)
    std::swap(symbols[i - 1], symbols[random.below(i)]);
  std::copy(symbols.begin(), symbols.end(), spec.symbols.begin());
  return spec;
}

/// The sizes of DC differences that 8-bit pictures have, and the AC symbols.
inline std::vector<std::uint8_t> dc_symbols(unsigned most_bits = 11) {
  std::vector<std::uint8_t> symbols;
  for (unsigned size = 0; size <= most_bits; ++size)
    symbols.push_back(static_cast<std::uint8_t>(size));
  return symbols;
}

inline std::vector<std::uint8_t> ac_symbols(unsigned most_bits = 10) {
  std::vector<std::uint8_t> symbols = {0x00, 0xf0};
  for (unsigned run = 0; run < 16; ++run) {
    for (unsigned size = 1; size <= most_bits; ++size) {
      symbols.push_back(static_cast<std::uint8_t>(run << 4 | size));
    }
  }
  return symbols;
}

enum class Content : std::uint8_t { kSlopes, kNoise, kFlat, kExtremes, kSparse };

struct JpegKind {
  std::uint32_t width_px = 16;
  std::uint32_t height_px = 16;
  J_COLOR_SPACE stored_as = JCS_YCbCr;  ///< Or JCS_RGB, JCS_GRAYSCALE.
  std::array<std::array<int, 2>, 3> sampling = {{{1, 1}, {1, 1}, {1, 1}}};  ///< Across, down.
  int quality = 90;
  unsigned restart_blocks = 0;
  bool has_optimised_tables = false;
  bool has_random_tables = false;
  Content content = Content::kSlopes;
  std::uint64_t seed = 1;

  std::string text() const {
    return fmt::format(
        "{}x{} colour {} sampling {}x{} {}x{} {}x{} quality {} restarts {} tables {}{} "
        "content {} seed {}",
        width_px, height_px, static_cast<int>(stored_as), sampling[0][0], sampling[0][1],
        sampling[1][0], sampling[1][1], sampling[2][0], sampling[2][1], quality, restart_blocks,
        has_optimised_tables ? "o" : "-", has_random_tables ? "r" : "-", static_cast<int>(content),
        seed);
  }
};

inline std::uint8_t sample_of(Content content, std::size_t x, std::size_t y, std::size_t channel,
                              SampleRandom& random) {
  const std::uint32_t noise = random.next();
  switch (content) {
    case Content::kSlopes:
      return static_cast<std::uint8_t>(x * (3 + channel) + y * (7 - channel) + (noise & 15U));
    case Content::kNoise:
      return static_cast<std::uint8_t>(noise);
    case Content::kFlat:
      return static_cast<std::uint8_t>(40 + 60 * channel);
    case Content::kExtremes:
      return (noise >> (x / 2 % 4) & 1U) != 0 ? 255 : 0;
    case Content::kSparse:
      return noise % 97 == 0 ? 250 : static_cast<std::uint8_t>(x / 8 * 16);
  }
  return 0;
}

inline void set_table(jpeg_compress_struct& cinfo, JHUFF_TBL*& table, const HuffmanSpec& spec) {
  if (table == nullptr) table = jpeg_alloc_huff_table(reinterpret_cast<j_common_ptr>(&cinfo));
  std::copy(spec.counts.begin(), spec.counts.end(), table->bits + 1);
  std::copy(spec.symbols.begin(), spec.symbols.end(), table->huffval);
  table->sent_table = FALSE;
}

inline void set_random_tables(jpeg_compress_struct& cinfo, SampleRandom& random) {
  // Each component has tables of its own where there are enough: baseline has two of each kind,
  // libjpeg and the extended kind four.
  const auto table_count = 1 + random.below(4);
  for (std::size_t i = 0; i < table_count; ++i) {
    const double bias = random.uniform();
    set_table(cinfo, cinfo.dc_huff_tbl_ptrs[i], random_table(random, dc_symbols(), bias));
    set_table(cinfo, cinfo.ac_huff_tbl_ptrs[i], random_table(random, ac_symbols(), bias));
  }
  for (int i = 0; i < cinfo.num_components; ++i) {
    cinfo.comp_info[i].dc_tbl_no = static_cast<int>(random.below(table_count));
    cinfo.comp_info[i].ac_tbl_no = static_cast<int>(random.below(table_count));
  }
}

inline Bytes make_jpeg(const JpegKind& kind) {
  SampleRandom random(kind.seed, 0, 0, 0);
  jpeg_compress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  jpeg_create_compress(&cinfo);
  unsigned char* out = nullptr;
  unsigned long out_bytes = 0;
  jpeg_mem_dest(&cinfo, &out, &out_bytes);
  const std::size_t channel_count = kind.stored_as == JCS_GRAYSCALE ? 1 : 3;
  cinfo.image_width = kind.width_px;
  cinfo.image_height = kind.height_px;
  cinfo.input_components = static_cast<int>(channel_count);
  cinfo.in_color_space = channel_count == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(&cinfo);
  jpeg_set_colorspace(&cinfo, kind.stored_as);
  jpeg_set_quality(&cinfo, kind.quality, TRUE);
  for (std::size_t i = 0; i < channel_count; ++i) {
    cinfo.comp_info[i].h_samp_factor = kind.sampling[i][0];
    cinfo.comp_info[i].v_samp_factor = kind.sampling[i][1];
  }
  cinfo.restart_interval = kind.restart_blocks;
  cinfo.optimize_coding = kind.has_optimised_tables ? TRUE : FALSE;
  if (kind.has_random_tables) set_random_tables(cinfo, random);
  jpeg_start_compress(&cinfo, TRUE);
  std::vector<std::uint8_t> row(kind.width_px * channel_count);
  while (cinfo.next_scanline < cinfo.image_height) {
    for (std::size_t i = 0; i < row.size(); ++i) {
      row[i] = sample_of(kind.content, i / channel_count, cinfo.next_scanline, i % channel_count,
                         random);
    }
    JSAMPROW rows = row.data();
    jpeg_write_scanlines(&cinfo, &rows, 1);
  }
  jpeg_finish_compress(&cinfo);
  const auto* begin = reinterpret_cast<const std::byte*>(out);
  Bytes encoded(begin, begin + out_bytes);
  free(out);
  jpeg_destroy_compress(&cinfo);
  return encoded;
}

/// What fits an MCU, and libjpeg's encoder: it shrinks by whole numbers only.
inline bool is_encodable(const std::array<std::array<int, 2>, 3>& sampling) {
  std::array<int, 2> most = {1, 1};
  int blocks = 0;
  for (const auto& factors : sampling) {
    most = {std::max(most[0], factors[0]), std::max(most[1], factors[1])};
    blocks += factors[0] * factors[1];
  }
  return blocks <= 10 && std::all_of(sampling.begin(), sampling.end(), [&](const auto& factors) {
           return most[0] % factors[0] == 0 && most[1] % factors[1] == 0;
         });
}

/// Any kind: sizes of 1 to `most_px` each way, samplings of all sorts, some of which ours leaves to
/// libjpeg-turbo.
inline JpegKind random_kind(SampleRandom& random, std::uint32_t most_px = 70) {
  static constexpr std::array<std::array<int, 2>, 8> kUsual = {
      {{1, 1}, {2, 1}, {2, 2}, {1, 2}, {4, 1}, {4, 2}, {1, 4}, {2, 4}}};
  JpegKind kind;
  kind.width_px = static_cast<std::uint32_t>(1 + random.below(most_px));
  kind.height_px = static_cast<std::uint32_t>(1 + random.below(most_px));
  kind.stored_as = random.below(8) == 0   ? JCS_GRAYSCALE
                   : random.below(8) == 0 ? JCS_RGB
                                          : JCS_YCbCr;
  kind.sampling[0] = kUsual[random.below(kUsual.size())];
  if (random.below(8) == 0) {
    do {
      for (auto& factors : kind.sampling) {
        for (int& factor : factors) factor = static_cast<int>(1 + random.below(4));
      }
    } while (!is_encodable(kind.sampling));
  }
  kind.quality = static_cast<int>(1 + random.below(100));
  if (random.below(2) == 0) kind.restart_blocks = static_cast<unsigned>(1 + random.below(20));
  kind.has_random_tables = random.below(2) == 0;
  kind.has_optimised_tables = !kind.has_random_tables && random.below(2) == 0;
  kind.content = static_cast<Content>(random.below(5));
  kind.seed = random.next();
  return kind;
}

}  // namespace feedrace::jpeg::testing
