// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "feedrace/jpeg/huffman.h"

namespace feedrace::jpeg {

struct Component {
  std::uint32_t across = 1;  ///< Blocks of an MCU beside each other (horizontal sampling factor).
  std::uint32_t down = 1;    ///< And above each other.
  std::uint32_t quant_table = 0;
  std::uint32_t dc_table = 0;
  std::uint32_t ac_table = 0;
};

enum class ColourModel : std::uint8_t { kGrey, kYcc, kRgb };

/// What stands in front of the entropy-coded data of a picture that this decoder does.
struct Frame {
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
  std::uint32_t component_count = 0;  ///< 1 or 3.
  std::array<Component, 3> components;
  std::uint32_t most_across = 1;
  std::uint32_t most_down = 1;
  ColourModel colour = ColourModel::kYcc;
  std::uint32_t restart_interval = 0;  ///< MCUs between restart markers; 0: there are none.
  std::array<std::array<std::uint8_t, 64>, 4> quant{};  ///< In zigzag order.
  std::array<HuffmanSpec, 4> dc;
  std::array<HuffmanSpec, 4> ac;
  std::size_t scan_at = 0;  ///< Byte at which the entropy-coded data begins.

  std::uint32_t mcu_width_px() const noexcept { return 8 * most_across; }
  std::uint32_t mcu_height_px() const noexcept { return 8 * most_down; }
  std::uint32_t mcu_columns() const noexcept {
    return (width_px + mcu_width_px() - 1) / mcu_width_px();
  }
  std::uint32_t mcu_rows() const noexcept {
    return (height_px + mcu_height_px() - 1) / mcu_height_px();
  }
};

/// Reads all segments up to the first scan. Empty when this decoder does the picture; else what is
/// unusual about it. Whatever is unusual, damaged included, is libjpeg's to judge.
const char* read_frame(std::span<const std::byte> encoded, Frame& frame) noexcept;

}  // namespace feedrace::jpeg
