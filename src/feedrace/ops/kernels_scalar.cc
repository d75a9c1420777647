// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "feedrace/ops/half.h"
#include "feedrace/ops/kernels.h"

// Plain loops, for machines whose instructions we have no set for.
namespace feedrace::ops {
namespace {

constexpr std::int32_t kHalfWeight = 1 << (kWeightBits - 1);

std::uint8_t to_level(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::min(sum >> kWeightBits, 255));
}

/// `index` holds source pixel and tap count of each output column, `packed` the weights, `stride`
/// ints apart.
void pack_columns(const AxisWeights& axis, bool flip, ColumnTable& table) {
  const std::size_t width = axis.size();
  table.width = width;
  table.row_padding_bytes = 0;
  table.index.assign(1, static_cast<std::uint32_t>(axis.stride));
  table.packed.resize(width * axis.stride * sizeof(std::int32_t));
  for (std::size_t x = 0; x < width; ++x) {
    const std::size_t from = flip ? width - 1 - x : x;
    table.index.push_back(axis.start[from] - axis.first);
    table.index.push_back(axis.taps[from]);
    std::memcpy(&table.packed[x * axis.stride * sizeof(std::int32_t)],
                &axis.weights[from * axis.stride], axis.stride * sizeof(std::int32_t));
  }
}

void resample_columns(const ColumnTable& table, const std::uint8_t* const rows[4],
                      std::size_t /*row_bytes*/, std::uint8_t* quad) {
  const std::size_t stride = table.index[0];
  const std::size_t plane_bytes = quad_plane_bytes(table.width);
  const auto* weights = reinterpret_cast<const std::int32_t*>(table.packed.data());
  for (std::size_t x = 0; x < table.width; ++x, weights += stride) {
    const std::uint32_t start = table.index[1 + 2 * x];
    const std::uint32_t taps = table.index[2 + 2 * x];
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t r = 0; r < 4; ++r) {
        const std::uint8_t* pixel = rows[r] + std::size_t{start} * 3 + c;
        std::int32_t sum = kHalfWeight;
        for (std::size_t k = 0; k < taps; ++k) sum += weights[k] * pixel[k * 3];
        quad[c * plane_bytes + x * 4 + r] = to_level(sum);
      }
    }
  }
}

void store(std::uint8_t level, const LevelMath& math, const RowOutput& output, std::size_t x,
           std::size_t c) {
  const bool planar = output.layout == Layout::kChw;
  void* plane = planar ? output.planes[c] : output.planes[0];
  const std::size_t at = planar ? x : x * 3 + c;
  if (math.dtype == DType::kUint8) {
    static_cast<std::uint8_t*>(plane)[at] = level;
  } else if (math.dtype == DType::kFloat16) {
    const float product = static_cast<float>(level) * math.scale[c];
    static_cast<std::uint16_t*>(plane)[at] = half_from_float(product + math.bias[c]);
  } else {
    const float share = static_cast<float>(level) / 255.0F;
    static_cast<float*>(plane)[at] = (share - math.mean[c]) / math.std[c];
  }
}

void resample_row(const QuadSum& sum, const LevelMath& math, const RowOutput& output) {
  for (std::size_t c = 0; c < 3; ++c) {
    for (std::size_t x = 0; x < output.width; ++x) {
      std::int32_t total = kHalfWeight;
      for (std::size_t q = 0; q < sum.quad_count; ++q) {
        const std::uint8_t* column = sum.quads[q] + c * sum.plane_bytes + x * 4;
        for (std::size_t r = 0; r < 4; ++r) total += sum.weights[q * 4 + r] * column[r];
      }
      store(to_level(total), math, output, x, c);
    }
  }
}

void convert_row(const std::uint8_t* rgb, const LevelMath& math, const RowOutput& output) {
  for (std::size_t x = 0; x < output.width; ++x) {
    for (std::size_t c = 0; c < 3; ++c) store(rgb[x * 3 + c], math, output, x, c);
  }
}

constexpr Kernels kScalar = {"scalar", pack_columns, resample_columns, resample_row, convert_row};

}  // namespace

const Kernels& scalar_kernels() noexcept { return kScalar; }

}  // namespace feedrace::ops
