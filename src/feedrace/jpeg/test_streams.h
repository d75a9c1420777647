// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <jpeglib.h>

#include "feedrace/jpeg/entropy.h"
#include "feedrace/jpeg/frame.h"
#include "feedrace/jpeg/huffman.h"
#include "feedrace/jpeg/zigzag.h"

/// JPEGs put together bit by bit, what no encoder writes included, and a plain reading of them.
namespace feedrace::jpeg::testing {

using Bytes = std::vector<std::byte>;
using Block = std::array<std::int16_t, kBlockSize>;  // In zigzag order.

inline void append(Bytes& to, const Bytes& more) { to.insert(to.end(), more.begin(), more.end()); }

inline Bytes bytes_of(std::initializer_list<unsigned> values) {
  Bytes bytes;
  for (const unsigned value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

inline Bytes bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

inline Bytes segment(unsigned marker, const Bytes& content) {
  const auto length = static_cast<unsigned>(content.size() + 2);
  Bytes bytes = bytes_of({0xff, marker, length >> 8, length & 0xffU});
  append(bytes, content);
  return bytes;
}

/// The content of a DHT segment; `kind` 0x00 + number for DC, 0x10 + number for AC.
inline Bytes table_content(unsigned kind, const HuffmanSpec& spec) {
  Bytes content = bytes_of({kind});
  std::size_t symbol_count = 0;
  for (const std::uint8_t count : spec.counts) {
    content.push_back(std::byte{count});
    symbol_count += count;
  }
  for (std::size_t i = 0; i < symbol_count; ++i) content.push_back(std::byte{spec.symbols.at(i)});
  return content;
}

/// A file of `frame`, up to the entropy-coded data; sets `frame.scan_at`.
inline Bytes header_of(Frame& frame) {
  Bytes bytes = bytes_of({0xff, 0xd8});
  const std::span used = std::span(frame.components).first(frame.component_count);
  Bytes sof = bytes_of({8, frame.height_px >> 8, frame.height_px & 0xffU, frame.width_px >> 8,
                        frame.width_px & 0xffU, frame.component_count});
  Bytes sos = bytes_of({frame.component_count});
  for (unsigned i = 0; i < used.size(); ++i) {
    append(sof, bytes_of({i + 1, used[i].across << 4 | used[i].down, used[i].quant_table}));
    append(sos, bytes_of({i + 1, used[i].dc_table << 4 | used[i].ac_table}));
  }
  append(sos, bytes_of({0, 63, 0}));
  for (unsigned i = 0; i < 4; ++i) {
    Bytes quant = bytes_of({i});
    for (const std::uint8_t value : frame.quant.at(i)) quant.push_back(std::byte{value});
    append(bytes, segment(0xdb, quant));
  }
  append(bytes, segment(0xc1, sof));
  for (unsigned i = 0; i < 4; ++i) {
    append(bytes, segment(0xc4, table_content(i, frame.dc.at(i))));
    append(bytes, segment(0xc4, table_content(0x10 + i, frame.ac.at(i))));
  }
  if (frame.restart_interval > 0) {
    append(bytes,
           segment(0xdd, bytes_of({frame.restart_interval >> 8, frame.restart_interval & 0xffU})));
  }
  append(bytes, segment(0xda, sos));
  frame.scan_at = bytes.size();
  return bytes;
}

/// Codes of a table, one after the other as T.81, annex C, gives them.
struct PlainCodes {
  std::map<std::pair<unsigned, std::uint32_t>, unsigned> symbols;  ///< Of (length, code).
  std::map<unsigned, std::pair<unsigned, std::uint32_t>> codes;    ///< And back.

  explicit PlainCodes(const HuffmanSpec& spec) {
    std::uint32_t code = 0;
    std::size_t next = 0;
    for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
      for (unsigned i = 0; i < spec.counts.at(length - 1); ++i, ++code, ++next) {
        symbols[{length, code}] = spec.symbols.at(next);
        codes[spec.symbols.at(next)] = {length, code};
      }
    }
  }
};

/// Writes entropy-coded data, stuffing included.
class BitWriter {
 public:
  void put(std::uint32_t bits, unsigned count) {
    while (count-- > 0) {
      held_ = held_ << 1 | (bits >> count & 1U);
      if (++held_count_ == 8) flush();
    }
  }
  void put_symbol(const PlainCodes& table, unsigned symbol) {
    const auto [length, code] = table.codes.at(symbol);
    put(code, length);
  }
  /// In as many bits as `size` says; the code of that size goes in front.
  void put_value(std::int32_t value, unsigned size) {
    const std::int32_t bits = value < 0 ? value + (1 << size) - 1 : value;
    put(static_cast<std::uint32_t>(bits), size);
  }
  /// Fills the last byte with ones, as encoders do.
  Bytes take() {
    while (held_count_ > 0) put(1, 1);
    return std::exchange(bytes_, {});
  }

 private:
  void flush() {
    bytes_.push_back(static_cast<std::byte>(held_ & 0xffU));
    if ((held_ & 0xffU) == 0xffU) bytes_.push_back(std::byte{0});
    held_ = held_count_ = 0;
  }
  Bytes bytes_;
  unsigned held_ = 0;
  unsigned held_count_ = 0;
};

/// Reads entropy-coded data without restart markers bit by bit, up to its first marker.
class PlainReader {
 public:
  /// The codes must stay.
  PlainReader(std::span<const std::byte> data, const PlainCodes& dc, const PlainCodes& ac)
      : dc_(dc), ac_(ac) {
    for (std::size_t i = 0; i < data.size(); ++i) {
      if (data[i] == std::byte{0xff}) {
        if (i + 1 >= data.size() || data[i + 1] != std::byte{0}) break;
        bytes_.push_back(0xff);
        ++i;
      } else {
        bytes_.push_back(std::to_integer<std::uint8_t>(data[i]));
      }
    }
  }

  /// Empty where the codes are damaged or the data ends.
  std::optional<Block> read_block() {
    Block block{};
    const auto dc_size = read_symbol(dc_);
    if (!dc_size) return {};
    const auto difference = read_value(*dc_size);
    if (!difference) return {};
    dc_value_ += *difference;
    block[0] = static_cast<std::int16_t>(dc_value_);
    for (unsigned at = 1; at < kBlockSize;) {
      const auto symbol = read_symbol(ac_);
      if (!symbol) return {};
      const unsigned run = *symbol >> 4;
      const unsigned size = *symbol & 15U;
      if (size == 0 && run != 15) break;
      at += size == 0 ? 16 : run;
      if (at > kBlockSize || (size > 0 && at == kBlockSize)) return {};
      if (size == 0) continue;
      const auto value = read_value(size);
      if (!value) return {};
      block.at(at++) = static_cast<std::int16_t>(*value);
    }
    return block;
  }

  /// Only bits that fill the last byte are left.
  bool is_finished() const { return bytes_.size() * 8 - at_ < 8; }

 private:
  std::optional<unsigned> read_bit() {
    if (at_ >= bytes_.size() * 8) return {};
    const unsigned bit = bytes_[at_ / 8] >> (7 - at_ % 8) & 1U;
    ++at_;
    return bit;
  }
  std::optional<unsigned> read_symbol(const PlainCodes& codes) {
    std::uint32_t code = 0;
    for (unsigned length = 1; length <= 16; ++length) {
      const auto bit = read_bit();
      if (!bit) return {};
      code = code << 1 | *bit;
      const auto found = codes.symbols.find({length, code});
      if (found != codes.symbols.end()) return found->second;
    }
    return {};
  }
  std::optional<std::int32_t> read_value(unsigned size) {
    std::int32_t bits = 0;
    for (unsigned i = 0; i < size; ++i) {
      const auto bit = read_bit();
      if (!bit) return {};
      bits = bits * 2 + static_cast<std::int32_t>(*bit);
    }
    return size > 0 && bits < 1 << (size - 1) ? bits - (1 << size) + 1 : bits;
  }

  const PlainCodes& dc_;
  const PlainCodes& ac_;
  std::vector<std::uint8_t> bytes_;
  std::size_t at_ = 0;
  std::int32_t dc_value_ = 0;
};

/// All blocks of a file by libjpeg, component by component, row by row, as many as MCUs hold.
inline std::array<std::vector<Block>, 3> libjpeg_blocks(const Bytes& encoded) {
  std::array<std::vector<Block>, 3> blocks;
  jpeg_decompress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  errors.output_message = [](j_common_ptr) {};
  jpeg_create_decompress(&cinfo);
  jpeg_mem_src(&cinfo, reinterpret_cast<const unsigned char*>(encoded.data()), encoded.size());
  jpeg_read_header(&cinfo, TRUE);
  jvirt_barray_ptr* arrays = jpeg_read_coefficients(&cinfo);
  for (int i = 0; i < cinfo.num_components; ++i) {
    const jpeg_component_info& component = cinfo.comp_info[i];
    const auto round_up = [](JDIMENSION value, int step) {
      const auto unit = static_cast<JDIMENSION>(step);
      return (value + unit - 1) / unit * unit;
    };
    const bool is_single = cinfo.num_components == 1;  // Its MCU is one block.
    const JDIMENSION across =
        round_up(component.width_in_blocks, is_single ? 1 : component.h_samp_factor);
    const JDIMENSION down =
        round_up(component.height_in_blocks, is_single ? 1 : component.v_samp_factor);
    for (JDIMENSION y = 0; y < down; ++y) {
      JBLOCKARRAY row = cinfo.mem->access_virt_barray(reinterpret_cast<j_common_ptr>(&cinfo),
                                                      arrays[i], y, 1, FALSE);
      for (JDIMENSION x = 0; x < across; ++x) {
        Block& block = blocks.at(static_cast<std::size_t>(i)).emplace_back();
        for (std::size_t k = 0; k < kBlockSize; ++k) block[k] = row[0][x][kNaturalOrder[k]];
      }
    }
  }
  jpeg_destroy_decompress(&cinfo);
  return blocks;
}

}  // namespace feedrace::jpeg::testing
