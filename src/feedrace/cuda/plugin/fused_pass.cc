// SPDX-License-Identifier: Apache-2.0
// The host's side of the fused pass: checks, tiles, places in the scratch memory, two launches.
#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "feedrace/cuda/fused_pass_batch.h"
#include "feedrace/cuda/plugin/handles.h"

namespace feedrace::cuda_plugin {
namespace {

using cuda::FusedAxis;
using cuda::FusedBatch;
using cuda::FusedImage;
using cuda::kQuad;

constexpr std::size_t kStagingBytes = 256;  // Of an image, as plugin_abi.h says.
static_assert(sizeof(FusedImage) <= kStagingBytes);
constexpr std::uint64_t kMaxFullPx = std::uint64_t{1} << 52U;  // Positions are exact as doubles.
constexpr std::uint32_t kLeastTileWidth = 4;
constexpr std::uint32_t kLeastTileHeight = 16;

[[noreturn]] void refuse(const std::string& message) {
  throw Refusal(FEEDRACE_CUDA_INVALID, "fused_pass: " + message);
}

/// Places in the scratch memory, one behind the other, aligned to 16 bytes.
class Places {
 public:
  explicit Places(std::uint64_t begin) : next_(begin) {}
  std::uint64_t take(std::uint64_t bytes) noexcept {
    const std::uint64_t place = next_;
    next_ += (bytes + 15) / 16 * 16;
    return place;
  }
  std::uint64_t next() const noexcept { return next_; }

 private:
  std::uint64_t next_;
};

double scale_of(const FusedAxis& axis) { return axis.box_px / static_cast<double>(axis.full_px); }

/// Of any output of the axis, at most; one more than the arithmetic gives, for its rounding.
std::uint32_t most_taps(const FusedAxis& axis) {
  const double support = std::max(scale_of(axis), 1.0);
  return static_cast<std::uint32_t>(std::min(2 * support + 2, static_cast<double>(axis.box_px)));
}

/// That `count` neighbours lie in, at most.
std::uint32_t most_quads(const FusedAxis& axis, double count) {
  const double in_box = std::ceil(axis.box_px / double{kQuad});
  return static_cast<std::uint32_t>(std::min(std::floor((count + 6) / kQuad), in_box));
}

/// Pixels of the box that `outputs` neighbours read, at most.
double most_pixels(const FusedAxis& axis, std::uint32_t outputs) {
  return (outputs - 1) * scale_of(axis) + most_taps(axis) + 1;
}

/// Outputs a tile, so that all tiles are about as large. Even: pairs are stored.
std::uint32_t balanced(std::uint32_t outputs, std::uint32_t most) {
  const std::uint32_t tiles = (outputs + most - 1) / most;
  const std::uint32_t even = (outputs + tiles - 1) / tiles + 1;
  return even / 2 * 2;
}

/// The widest tile whose columns fit into shared memory; less than kLeastTileWidth when none does.
std::uint32_t tile_width(const FusedAxis& x) {
  std::uint32_t width = cuda::kTileWidth;
  while (width >= kLeastTileWidth && most_quads(x, most_pixels(x, width)) > cuda::kTileQuads) {
    width -= 2;
  }
  return width;
}

/// So high that its source comes to shared memory in one go, where that is high enough.
std::uint32_t tile_height(const FusedAxis& y, std::uint32_t column_quads) {
  const std::uint32_t rows =
      std::min(cuda::kChunkQuads, cuda::kSourceBytes / (cuda::source_stride(column_quads) * kQuad));
  std::uint32_t height = cuda::kTileHeight;
  while (height >= kLeastTileHeight && most_quads(y, most_pixels(y, height)) > rows) height -= 2;
  return height >= kLeastTileHeight ? height : cuda::kTileHeight;
}

void set_tiles(FusedImage& image) {
  const std::uint32_t widest = tile_width(image.x);
  image.is_direct = widest < kLeastTileWidth ? 1 : 0;
  image.tile_width = balanced(image.x.output_px, image.is_direct != 0 ? cuda::kTileWidth : widest);
  const std::uint32_t quads =
      std::min(most_quads(image.x, most_pixels(image.x, image.tile_width)), cuda::kTileQuads);
  image.tile_height = balanced(image.y.output_px, tile_height(image.y, quads));
  image.tiles_across = (image.x.output_px + image.tile_width - 1) / image.tile_width;
  image.tile_count =
      image.tiles_across * ((image.y.output_px + image.tile_height - 1) / image.tile_height);
}

struct AxisGeometry {
  std::uint32_t box_px;
  std::uint64_t full_px;
  std::int64_t window_px;
  bool mirror;
  std::uint32_t output_px;
};

FusedAxis make_axis(const AxisGeometry& given) {
  FusedAxis axis{};
  axis.full_px = given.full_px;
  axis.window_px = given.window_px;
  axis.box_px = given.box_px;
  axis.output_px = given.output_px;
  axis.mirror = given.mirror ? 1 : 0;
  const auto size = std::int64_t{given.output_px};
  const auto full = static_cast<std::int64_t>(given.full_px);
  const std::int64_t begin = std::clamp<std::int64_t>(-given.window_px, 0, size);
  const std::int64_t end = std::clamp<std::int64_t>(full - given.window_px, begin, size);
  axis.valid_begin = static_cast<std::uint32_t>(given.mirror ? size - end : begin);
  axis.valid_end = static_cast<std::uint32_t>(given.mirror ? size - begin : end);
  axis.quads = most_quads(axis, most_taps(axis));
  return axis;
}

void check_geometry(const feedrace_cuda_geometry& geometry, std::uint32_t index) {
  if (geometry.box_width_px == 0 || geometry.box_height_px == 0) {
    refuse(fmt::format("image {}: the box is {} x {}; give one with pixels", index,
                       geometry.box_width_px, geometry.box_height_px));
  }
  for (const std::uint64_t full_px : {geometry.full_width_px, geometry.full_height_px}) {
    if (full_px > 0 && full_px < kMaxFullPx) continue;
    refuse(fmt::format("image {}: the full size is {}; it must be from 1 to 2^52 - 1", index,
                       full_px));
  }
  for (const std::int64_t window_px : {geometry.window_x_px, geometry.window_y_px}) {
    const auto most = static_cast<std::int64_t>(kMaxFullPx);
    if (window_px > -most && window_px < most) continue;
    refuse(fmt::format("image {}: the window begins at {}; stay within 2^52 pixels", index,
                       window_px));
  }
}

/// All but where the picture lies. Takes places for the weights.
FusedImage make_image(const feedrace_cuda_geometry& geometry, std::uint32_t index,
                      const feedrace_cuda_output& output, Places& places) {
  check_geometry(geometry, index);
  FusedImage image{};
  image.x = make_axis({geometry.box_width_px, geometry.full_width_px, geometry.window_x_px,
                       geometry.mirror_x != 0, output.width_px});
  image.y = make_axis({geometry.box_height_px, geometry.full_height_px, geometry.window_y_px,
                       geometry.mirror_y != 0, output.height_px});
  set_tiles(image);
  for (FusedAxis* axis : {&image.x, &image.y}) {
    const std::uint64_t outputs = axis->valid_end - axis->valid_begin;
    const std::uint64_t words = axis == &image.x ? cuda::kWeightWords : kQuad;
    axis->spans = places.take(outputs * sizeof(cuda::QuadSpan));
    axis->weights = places.take(outputs * axis->quads * words * sizeof(std::uint32_t));
  }
  return image;
}

void set_picture(FusedImage& image, const feedrace_cuda_picture& picture,
                 const feedrace_cuda_geometry& geometry, std::uint32_t index) {
  const std::uint64_t right_px = std::uint64_t{geometry.box_x_px} + geometry.box_width_px;
  const std::uint64_t bottom_px = std::uint64_t{geometry.box_y_px} + geometry.box_height_px;
  if (right_px > picture.width_px || bottom_px > picture.height_px) {
    refuse(fmt::format("image {}: the box ends at {}, {}, the picture is {} x {}; crop within it",
                       index, right_px, bottom_px, picture.width_px, picture.height_px));
  }
  const std::int64_t used_bytes = std::int64_t{picture.width_px} * 3;
  if (picture.row_bytes < used_bytes) {
    refuse(
        fmt::format("image {}: rows are {} bytes apart, {} pixels take {}; give the distance of "
                    "two rows",
                    index, picture.row_bytes, picture.width_px, used_bytes));
  }
  if (picture.address == 0) refuse(fmt::format("image {}: the picture is at 0", index));
  const auto row_bytes = static_cast<std::uint64_t>(picture.row_bytes);
  image.row_bytes = picture.row_bytes;
  image.memory_begin = picture.address;
  image.memory_end = picture.address + row_bytes * (picture.height_px - std::uint64_t{1}) +
                     static_cast<std::uint64_t>(used_bytes);
  image.pixels =
      picture.address + row_bytes * geometry.box_y_px + std::uint64_t{geometry.box_x_px} * 3;
}

std::uint32_t value_bytes(const feedrace_cuda_output& output) {
  switch (output.dtype) {
    case FEEDRACE_CUDA_UINT8:
      return 1;
    case FEEDRACE_CUDA_FLOAT16:
      return 2;
    case FEEDRACE_CUDA_FLOAT32:
      return 4;
    default:
      refuse(fmt::format("dtype {}; give one of enum feedrace_cuda_dtype", output.dtype));
  }
}

/// What does not depend on where the output lies.
void check_output(const feedrace_cuda_output& output) {
  if (output.width_px == 0 || output.height_px == 0) {
    refuse(fmt::format("the output is {} x {}; give a size with pixels", output.width_px,
                       output.height_px));
  }
  if (value_bytes(output) == 1) return;
  for (int c = 0; c < 3; ++c) {
    const bool is_usable = std::isfinite(output.mean[c]) && std::isfinite(output.std[c]);
    if (is_usable && output.std[c] != 0.0F) continue;
    refuse(fmt::format("channel {}: mean {}, std {}; give finite numbers and a std other than 0", c,
                       output.mean[c], output.std[c]));
  }
}

/// The first in scratch: the images' parameters, then the table of levels.
struct Head {
  std::uint64_t images;
  std::uint64_t table;

  Head(Places& places, std::uint32_t count)
      : images(places.take(std::uint64_t{count} * sizeof(FusedImage))),
        table(places.take(std::uint64_t{3} * 256 * sizeof(float))) {}
};

int fused_pass_scratch(feedrace_cuda_device*, const feedrace_cuda_geometry* geometries,
                       std::uint32_t count, const feedrace_cuda_output* output, std::size_t* bytes,
                       feedrace_cuda_error* error) {
  return guarded(error, [&] {
    check_output(*output);
    Places places(0);
    const Head head(places, count);
    for (std::uint32_t i = 0; i < count; ++i) make_image(geometries[i], i, *output, places);
    *bytes = places.next();
  });
}

struct Memory {
  std::uint64_t scratch;
  std::size_t scratch_bytes;
  void* staging;
  std::size_t staging_bytes;
};

void check_memory(const Memory& memory, std::uint32_t count, const feedrace_cuda_output& output) {
  if (memory.staging == nullptr || memory.staging_bytes < count * kStagingBytes) {
    refuse(fmt::format("{} bytes of staging for {} images; give {} for each", memory.staging_bytes,
                       count, kStagingBytes));
  }
  if (memory.scratch % 16 != 0) {
    refuse(fmt::format("scratch at {:#x}; align it to 16 bytes", memory.scratch));
  }
  if (output.address == 0 || output.address % value_bytes(output) != 0) {
    refuse(fmt::format("output at {:#x}; align it to its elements of {} bytes", output.address,
                       value_bytes(output)));
  }
}

FusedBatch make_batch(const feedrace_cuda_output& output, std::uint32_t count, const Head& head) {
  FusedBatch batch{};
  batch.images = head.images;
  batch.table = head.table;
  batch.output = output.address;
  batch.image_count = count;
  batch.width_px = output.width_px;
  batch.height_px = output.height_px;
  batch.dtype = output.dtype;
  batch.is_hwc = output.is_hwc;
  const std::uint64_t pair_bytes = std::uint64_t{2} * value_bytes(output);
  batch.stores_pairs = output.width_px % 2 == 0 && output.address % pair_bytes == 0 ? 1 : 0;
  std::copy_n(output.mean, 3, batch.mean);
  std::copy_n(output.std, 3, batch.std);
  return batch;
}

/// Ready to be launched: what may fail for lack of something fails before any work is on the
/// stream.
struct Kernel {
  Kernel(feedrace_cuda_device& device, const char* kernel_name, unsigned shared)
      : name(kernel_name), function(kernel(device, kernel_name)), shared_bytes(shared) {
    if (shared_bytes == 0) return;
    check(
        device.driver,
        device.driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                         static_cast<int>(shared_bytes)),
        fmt::format("{}: cuFuncSetAttribute of {}, {} bytes of shared memory", device.name, name,
                    shared_bytes));
  }

  void launch(const feedrace_cuda_device& device, unsigned blocks_x, unsigned blocks_y,
              FusedBatch& batch, CUstream stream) const {
    void* arguments[] = {&batch};
    check(device.driver,
          device.driver.cuLaunchKernel(function, blocks_x, blocks_y, 1, cuda::kFusedThreads, 1, 1,
                                       shared_bytes, stream, arguments, nullptr),
          fmt::format("{}: cuLaunchKernel of {}, {} x {} blocks", device.name, name, blocks_x,
                      blocks_y));
  }

  const char* name;
  CUfunction function;
  unsigned shared_bytes;
};

void run(feedrace_cuda_device& device, const feedrace_cuda_picture* pictures,
         const feedrace_cuda_geometry* geometries, std::uint32_t count,
         const feedrace_cuda_output& output, const Memory& memory, CUstream stream) {
  check_output(output);
  check_memory(memory, count, output);
  Places places(memory.scratch);
  const Head head(places, count);
  FusedBatch batch = make_batch(output, count, head);
  for (std::uint32_t i = 0; i < count; ++i) {
    FusedImage image = make_image(geometries[i], i, output, places);
    set_picture(image, pictures[i], geometries[i], i);
    batch.max_tiles = std::max(batch.max_tiles, image.tile_count);
    std::memcpy(static_cast<std::byte*>(memory.staging) + i * sizeof(image), &image, sizeof(image));
  }
  const std::uint64_t needed_bytes = places.next() - memory.scratch;
  if (memory.scratch_bytes < needed_bytes) {
    refuse(
        fmt::format("{} bytes of scratch, {} needed; ask fused_pass_scratch with the same "
                    "geometries",
                    memory.scratch_bytes, needed_bytes));
  }
  const std::uint64_t blocks = std::uint64_t{count} * batch.max_tiles;
  if (blocks > 0x7FFFFFFF) {
    refuse(fmt::format("{} images of {} tiles; give fewer in one call", count, batch.max_tiles));
  }
  const Current current(device);
  const Kernel weights(device, cuda::kFusedWeightsKernel, 0);
  const Kernel tiles(device, cuda::kFusedPassKernels[output.dtype], sizeof(cuda::FusedShared));
  check(device.driver,
        device.driver.cuMemcpyHtoDAsync(head.images, memory.staging, count * sizeof(FusedImage),
                                        stream),
        fmt::format("{}: cuMemcpyHtoDAsync of {} images' parameters", device.name, count));
  weights.launch(device, count, 2, batch, stream);
  tiles.launch(device, static_cast<unsigned>(blocks), 1, batch, stream);
}

int fused_pass(feedrace_cuda_device* device, const feedrace_cuda_picture* pictures,
               const feedrace_cuda_geometry* geometries, std::uint32_t count,
               const feedrace_cuda_output* output, std::uint64_t scratch, std::size_t scratch_bytes,
               void* staging, std::size_t staging_bytes, feedrace_cuda_stream stream,
               feedrace_cuda_error* error) {
  return guarded(error, [&] {
    if (count == 0) return;
    run(*device, pictures, geometries, count, *output,
        {scratch, scratch_bytes, staging, staging_bytes}, stream_of(stream));
  });
}

}  // namespace

void add_fused_pass(feedrace_cuda_plugin& table) {
  table.fused_pass_scratch = fused_pass_scratch;
  table.fused_pass = fused_pass;
}

}  // namespace feedrace::cuda_plugin
