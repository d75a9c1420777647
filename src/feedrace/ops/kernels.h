// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <vector>

#include "feedrace/ops/resample.h"
#include "feedrace/tensor.h"

// The inner loops, one set for each instruction set. All sets give the same bits.
//
// Between the two passes of a resize lie "quads": four consecutive rows, already resized along x,
// as three planes (red, green, blue), in which the four rows' bytes of one column are neighbours.
// The second pass multiplies and adds over rows, so this is the order in which its instructions
// want the bytes, and the first pass gets four rows out of one set of weights.
namespace feedrace::ops {

/// Memory that vector loads like: 64-byte aligned.
template <typename T>
struct VectorAllocator {
  using value_type = T;
  VectorAllocator() = default;
  template <typename U>
  VectorAllocator(const VectorAllocator<U>&) noexcept {}  // NOLINT(google-explicit-constructor)
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), std::align_val_t{64}));
  }
  void deallocate(T* memory, std::size_t) noexcept {
    ::operator delete(memory, std::align_val_t{64});
  }
  friend bool operator==(const VectorAllocator&, const VectorAllocator&) { return true; }
};

template <typename T>
using VectorBuffer = std::vector<T, VectorAllocator<T>>;

/// Columns of a plane of a quad are padded to this many; the padding may hold anything.
inline constexpr std::size_t kQuadColumns = 16;

/// Bytes of one plane of a quad.
constexpr std::size_t quad_plane_bytes(std::size_t width) noexcept {
  return (width + kQuadColumns - 1) / kQuadColumns * kQuadColumns * 4;
}

/// The weights of the first pass in the order in which one kernel wants them. Only the kernel that
/// packed it may read it.
struct ColumnTable {
  std::size_t width = 0;  ///< Output columns.
  /// Bytes that may be read behind the end of a row; 0 for all but very narrow sources.
  std::size_t row_padding_bytes = 0;
  std::vector<std::uint32_t> index;
  VectorBuffer<std::int8_t> packed;

  std::size_t memory_bytes() const noexcept {
    return index.capacity() * sizeof(index[0]) + packed.capacity();
  }
};

/// How a kernel computes what `LevelTable` defines.
struct LevelMath {
  DType dtype = DType::kUint8;
  /// False: no arithmetic of the kernel gives the table's bits; look the levels up.
  bool exact = true;
  // float16: level * scale + bias, which is found by trial. float32: the definition's own steps.
  std::array<float, 3> scale{};
  std::array<float, 3> bias{};
  std::array<float, 3> mean{};
  std::array<float, 3> std{};
};

/// Where a row of the tensor goes.
struct RowOutput {
  Layout layout = Layout::kChw;
  std::array<void*, 3> planes{};  ///< The row in each plane; HWC uses the first alone.
  std::size_t width = 0;
};

/// One output row's share of the quads.
struct QuadSum {
  const std::uint8_t* const* quads = nullptr;  ///< `quad_count` quads, each of three planes.
  std::int32_t* weights = nullptr;             ///< 4 for each quad; the kernel may overwrite them.
  std::size_t quad_count = 0;                  ///< At least 1.
  std::size_t plane_bytes = 0;
};

struct Kernels {
  const char* name;  ///< "scalar", "SSE4", "AVX2", "AVX3", "AVX512_VNNI".

  void (*pack_columns)(const AxisWeights& axis, bool flip, ColumnTable& table);

  /// First pass: four rows of `row_bytes` readable bytes (and the table's padding) to a quad.
  void (*resample_columns)(const ColumnTable& table, const std::uint8_t* const rows[4],
                           std::size_t row_bytes, std::uint8_t* quad);

  /// Second pass: one row of 8-bit sums, converted and stored. `math.exact` must hold.
  void (*resample_row)(const QuadSum& sum, const LevelMath& math, const RowOutput& output);

  /// 8-bit interleaved RGB, converted and stored. `math.exact` must hold.
  void (*convert_row)(const std::uint8_t* rgb, const LevelMath& math, const RowOutput& output);
};

/// The sets that this machine can run, the plain one first, the fastest last.
const std::vector<const Kernels*>& available_kernels();
const Kernels& best_kernels();

// The makers of sets; a pointer is null, or a set left out, where the machine or build lacks it.
const Kernels& scalar_kernels() noexcept;
std::vector<const Kernels*> highway_kernels();
const Kernels* vnni_kernels() noexcept;

}  // namespace feedrace::ops
