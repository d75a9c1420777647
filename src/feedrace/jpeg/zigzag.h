// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace feedrace::jpeg {

/// Where in a block of 8 rows the coefficients of the stream belong (ITU-T T.81, figure A.6).
constexpr std::array<std::uint8_t, 64> make_natural_order() {
  std::array<std::uint8_t, 64> order{};
  int row = 0;
  int column = 0;
  for (auto& place : order) {
    place = static_cast<std::uint8_t>(8 * row + column);
    const bool goes_up = (row + column) % 2 == 0;
    if (goes_up && column == 7) {
      ++row;
    } else if (goes_up) {
      row -= row > 0 ? 1 : 0;
      ++column;
      // At the upper edge only the column moved.
    } else if (row == 7) {
      ++column;
    } else {
      ++row;
      column -= column > 0 ? 1 : 0;
    }
  }
  return order;
}

inline constexpr std::array<std::uint8_t, 64> kNaturalOrder = make_natural_order();
static_assert(kNaturalOrder[1] == 1 && kNaturalOrder[2] == 8 && kNaturalOrder[3] == 16 &&
              kNaturalOrder[35] == 56 && kNaturalOrder[62] == 62 && kNaturalOrder[63] == 63);

}  // namespace feedrace::jpeg
