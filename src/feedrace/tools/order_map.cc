// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/order_map.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <random>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::tools {
namespace {

constexpr std::uint64_t kRows = 16;
constexpr std::uint64_t kColumns = 64;
// With fewer in a cell, chance is all that one sees: small sets get broader cells.
constexpr std::uint64_t kSamplesACell = 4;
constexpr std::size_t kBroadestCell = 8;
constexpr std::uint64_t kPositionsARow = 4096;
constexpr std::string_view kShades = " .:-=+*#%@";
constexpr double kShadesAShare = 4;  // An even share is '='.

/// `value * factor / divisor`, rounded down; by 128 bits, as the product may not fit.
std::uint64_t scaled(std::uint64_t value, std::uint64_t factor, std::uint64_t divisor) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{value} * factor / divisor);
}

/// The border in front of stretch `part` of `parts` equal ones.
std::uint64_t border(std::uint64_t size, std::uint64_t part, std::uint64_t parts) {
  return scaled(size, part, parts);
}

/// The stretch that `place` lies in.
std::uint64_t stretch_of(std::uint64_t size, std::uint64_t place, std::uint64_t parts) {
  return scaled(place, parts, size);
}

/// Columns that make up one cell of the picture; a divisor of their number.
std::size_t breadth_of(const OrderMap& map) {
  const std::size_t columns = map.counts.front().size();
  std::size_t breadth = 1;
  while (breadth < kBroadestCell && columns % (2 * breadth) == 0 &&
         map.looked_at * breadth < kSamplesACell * map.counts.size() * columns) {
    breadth *= 2;
  }
  return breadth;
}

/// Of the cell that a column lies in.
std::uint64_t count_around(const std::vector<std::uint64_t>& row, std::size_t column,
                           std::size_t breadth) {
  const auto begin = row.begin() + static_cast<std::ptrdiff_t>(column / breadth * breadth);
  return std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(breadth), std::uint64_t{0});
}

}  // namespace

OrderMap make_order_map(const OrderView& view) {
  const std::uint64_t samples = view.order->epoch_samples();
  const std::uint64_t members = view.order->member_count();
  const std::uint64_t rows = std::min(kRows, samples);
  const std::uint64_t columns = std::min(kColumns, members);
  // Batches of one: position by position.
  const order::EpochOrder positions(view.order, {1, 0, 1, LastBatch::kDrop}, view.epoch);
  OrderMap map;
  map.counts.assign(rows, std::vector<std::uint64_t>(columns));
  std::mt19937_64 random;  // NOLINT(cert-msc51-cpp,bugprone-random-generator-seed): same picture.
  for (std::uint64_t row = 0; row < rows; ++row) {
    const std::uint64_t begin = border(samples, row, rows);
    const std::uint64_t length = border(samples, row + 1, rows) - begin;
    const std::uint64_t looks = std::min(length, kPositionsARow);
    for (std::uint64_t i = 0; i < looks; ++i) {
      // One at random out of each piece: equal steps would beat with the order's own windows.
      const std::uint64_t from = border(length, i, looks);
      const std::uint64_t to = border(length, i + 1, looks);
      const order::Pick pick = positions.pick(begin + from + random() % (to - from), 0);
      const std::uint64_t member = view.order->first_member(pick.set) + pick.member;
      ++map.counts[row][stretch_of(members, member, columns)];
      ++map.looked_at;
    }
  }
  return map;
}

std::string to_text(const OrderMap& map) {
  std::string text = "order map: top to bottom the epoch, left to right the stored order\n";
  const std::size_t breadth = breadth_of(map);
  for (const auto& row : map.counts) {
    const auto sum = static_cast<double>(std::accumulate(row.begin(), row.end(), std::uint64_t{0}));
    const double share = sum / static_cast<double>(row.size());
    text += "  |";
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::uint64_t count = count_around(row, column, breadth);
      const double shade = std::round(kShadesAShare * static_cast<double>(count) /
                                      (share * static_cast<double>(breadth)));
      const std::size_t lowest = count > 0 ? 1 : 0;
      text += kShades[std::clamp(static_cast<std::size_t>(shade), lowest, kShades.size() - 1)];
    }
    text += "|\n";
  }
  text += fmt::format(
      "  ' ' none, '{}' an even share, '{}' twice that and more; {} positions looked "
      "at\n",
      kShades[static_cast<std::size_t>(kShadesAShare)], kShades.back(), with_commas(map.looked_at));
  return text;
}

}  // namespace feedrace::tools
