// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the host tells the kernels of the fused pass, and where it lies.

#include "feedrace/cuda/fused_pass_pixel.h"

namespace feedrace::cuda {

inline constexpr std::uint32_t kFusedThreads = 256;
inline constexpr std::uint32_t kFusedWarps = kFusedThreads / 32;
inline constexpr std::uint32_t kTileWidth = 64;   ///< Of the output, at most. Even.
inline constexpr std::uint32_t kTileHeight = 32;  ///< Likewise.
inline constexpr std::uint32_t kTileElements = 3 * kTileWidth;
/// Quads of columns that a tile may read; where it takes more, columns come from global memory.
inline constexpr std::uint32_t kTileQuads = 76;
/// Quads of rows of resampled levels that are kept: 64 source rows.
inline constexpr std::uint32_t kChunkQuads = 16;
/// Rows of outputs that reach over the edge of a chunk: 2 when shrinking, for a row has fewer than
/// 2 * scale + 1 taps and the next begins scale on; when enlarging, a tile reads 35 rows at most,
/// which is one chunk.
inline constexpr std::uint32_t kOpenRows = 2;
inline constexpr std::uint32_t kSourceBytes = 24 * 1024;
inline constexpr std::uint32_t kMaxSourceStride = 1056;  // Of source_stride(kTileQuads).

/// 32 bytes more than a multiple of 128: then 4 rows lie in different banks of shared memory.
/// Room for 15 bytes before the first pixel and one word behind the last.
FEEDRACE_HOST_DEVICE constexpr std::uint32_t source_stride(std::uint32_t quads) {
  return (12 * quads + 20 - 32 + 127) / 128 * 128 + 32;
}
static_assert(source_stride(kTileQuads) == kMaxSourceStride);
static_assert(kMaxSourceStride * kQuad <= kSourceBytes);

struct alignas(16) Words {
  std::uint32_t at[4];
};

/// Dynamic shared memory of the kernel. 3 blocks fit on a multiprocessor of an H200.
struct alignas(16) FusedShared {
  std::uint8_t source[kSourceBytes];
  Words columns[kFusedWarps][3][kTileQuads];             ///< [warp][channel][quad].at[row]
  std::uint32_t levels[kChunkQuads][kTileElements];      ///< Quads of rows, in the output's order.
  std::uint32_t open[2][kOpenRows][kTileElements];       ///< Sums that the next chunk goes on with.
  Words table[3 * 256 * sizeof(float) / sizeof(Words)];  ///< Values of levels, [channel][level].
};

static_assert(3 * (sizeof(FusedShared) + 1024) <= 228 * 1024);  // The driver takes 1 KiB a block.

/// One axis of one image.
struct FusedAxis {
  std::uint64_t full_px;
  std::int64_t window_px;
  std::uint64_t spans;    ///< Address of QuadSpan[valid_end - valid_begin].
  std::uint64_t weights;  ///< Columns: word [quad][byte][output]; rows: Words [output][quad].
  std::uint32_t box_px;
  std::uint32_t output_px;
  std::uint32_t valid_begin;  ///< Outputs inside the resized picture, mirrored already.
  std::uint32_t valid_end;
  std::uint32_t quads;  ///< Of any output, at most.
  std::uint32_t mirror;

  FEEDRACE_HOST_DEVICE std::uint32_t valid_count() const { return valid_end - valid_begin; }
};

/// One image, as it is copied to the device.
struct FusedImage {
  FusedAxis x;
  FusedAxis y;
  std::uint64_t pixels;        ///< Address of the box's first pixel.
  std::uint64_t memory_begin;  ///< Of the whole picture: what may be read.
  std::uint64_t memory_end;
  std::int64_t row_bytes;
  std::uint32_t tile_width;
  std::uint32_t tile_height;
  std::uint32_t tiles_across;
  std::uint32_t tile_count;
  std::uint32_t is_direct;  ///< A tile's columns do not fit into shared memory.
  std::uint32_t reserved;
};
static_assert(sizeof(FusedImage) <= 256);

/// The one argument of the kernels.
struct FusedBatch {
  std::uint64_t images;  ///< Address of FusedImage[image_count].
  std::uint64_t table;   ///< Address of the values of levels, float or binary16; none for uint8.
  std::uint64_t output;
  std::uint32_t image_count;
  std::uint32_t width_px;
  std::uint32_t height_px;
  std::uint32_t max_tiles;  ///< Of any image: block b does tile b % max_tiles of its image.
  std::uint32_t dtype;      ///< enum feedrace_cuda_dtype
  std::uint32_t is_hwc;
  std::uint32_t stores_pairs;  ///< Two neighbours lie aligned for one store.
  float mean[3];
  float std[3];
  std::uint32_t reserved;
};

/// Names of the kernels, as the module has them.
inline constexpr char kFusedWeightsKernel[] = "feedrace_fused_weights";
inline constexpr const char* kFusedPassKernels[] = {  // By enum feedrace_cuda_dtype.
    "feedrace_fused_pass_uint8", "feedrace_fused_pass_float16", "feedrace_fused_pass_float32"};

template <typename T>
FEEDRACE_HOST_DEVICE T* at_address(std::uint64_t address) {
  return reinterpret_cast<T*>(static_cast<std::uintptr_t>(address));
}

// Reads of what no one writes while the kernel runs.
FEEDRACE_HOST_DEVICE inline std::uint32_t read_word(const std::uint32_t* at) {
#ifdef __CUDA_ARCH__
  return __ldg(at);
#else
  return *at;
#endif
}
FEEDRACE_HOST_DEVICE inline std::uint8_t read_byte(const std::uint8_t* at) {
#ifdef __CUDA_ARCH__
  return __ldg(at);
#else
  return *at;
#endif
}
FEEDRACE_HOST_DEVICE inline Words read_words(const Words* at) {
#ifdef __CUDA_ARCH__
  const uint4 read = __ldg(reinterpret_cast<const uint4*>(at));
  return {{read.x, read.y, read.z, read.w}};
#else
  return *at;
#endif
}
FEEDRACE_HOST_DEVICE inline QuadSpan read_span(const FusedAxis& axis, std::uint32_t output) {
  const auto* at = at_address<const std::uint32_t>(axis.spans) + 2 * (output - axis.valid_begin);
  return {read_word(at), read_word(at + 1)};
}

}  // namespace feedrace::cuda
