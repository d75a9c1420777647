// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/direct_plan.h"

#include <algorithm>
#include <bit>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/alignment.h"
#include "feedrace/core/text.h"
#include "feedrace/decode/npy_header.h"
#include "feedrace/formats/decoded_pictures.h"
#include "feedrace/transform/raw_sample.h"

namespace feedrace::pipeline {
namespace {

constexpr std::size_t kPageBytes = 65536;
constexpr std::size_t kLeastBytes = std::size_t{1} << 20;
constexpr std::size_t kMostBytes = std::size_t{16} << 20;
// More in flight only waits longer in the drive's queue; a reader asks for no more either.
constexpr std::size_t kBytesInFlight = std::size_t{64} << 20;
constexpr std::size_t kLeastInFlight = 4;
// A sample begins and ends anywhere in a block.
constexpr std::size_t kBlockEdges = 2 * cuda::DirectBackend::kBlockBytes;

[[noreturn]] void refuse(const char* why) {
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("backend is \"cufile\", which reads raw samples and decoded pictures into "
                  "a GPU's memory; {}, or take another backend",
                  why));
}

std::size_t largest_sample_bytes(const LoaderOptions& options, const formats::Dataset& dataset) {
  if (options.pipeline.raw) {
    const bool has_header = options.pipeline.raw->form == RawSamples::Form::kNpy;
    return transform::raw_bytes(*options.pipeline.raw) +
           (has_header ? decode::kMaxNpyHeaderBytes : 0);
  }
  // An index of shards has the sizes: a million of them are looked at in milliseconds.
  std::uint64_t largest = decode::kMaxNpyHeaderBytes;
  for (std::uint64_t sample = 0; sample < dataset.size(); ++sample) {
    const std::uint64_t bytes = dataset.place(sample).size_bytes;
    if (bytes != formats::Place::kUnknownSize) largest = std::max(largest, bytes);
  }
  return static_cast<std::size_t>(std::min(largest, transform::kMaxRawBytes));
}

}  // namespace

bool is_direct(const LoaderOptions& options) {
  return options.backend == "cufile" && !options.backend_factory;
}

bool is_direct_raw(const LoaderOptions& options) {
  return is_direct(options) && options.pipeline.raw.has_value();
}

void check_direct(const LoaderOptions& options) {
  if (!is_direct(options)) return;
  if (options.device == "cpu") refuse("give device=\"cuda\"");
  if (!options.fields.empty()) refuse("leave out fields, which only the host could look at");
  if (options.shared_cache) refuse("leave out shared_cache, which is memory of the host");
  if (options.page_cache == PageCache::kKeep) refuse("leave out page_cache=\"keep\"");
  if (options.iopoll || options.sqpoll.value_or(false)) refuse("leave out iopoll and sqpoll");
}

void check_direct(const LoaderOptions& options, const formats::Dataset& dataset) {
  if (!is_direct(options) || options.pipeline.raw) return;
  const bool is_decoded = !dataset.shards().empty() && formats::holds_decoded(dataset);
  if (!is_decoded || options.pipeline.reads_only) {
    refuse(
        "take a pipeline of raw samples (recipe \"raw\"), or shards of decoded pictures, as "
        "feedrace pack --raw makes them");
  }
  if (options.decode_device == "cpu") refuse("leave out decode_device=\"cpu\"");
}

BufferShape direct_buffers(const LoaderOptions& options, const formats::Dataset& dataset,
                           std::size_t decode_threads) {
  const std::size_t sample_bytes = largest_sample_bytes(options, dataset);
  BufferShape shape;
  // Of two samples each, so that neighbours share a read.
  const std::size_t wanted = std::clamp(std::bit_ceil(2 * sample_bytes), kLeastBytes, kMostBytes);
  shape.bytes =
      std::max(wanted, static_cast<std::size_t>(round_up(sample_bytes + kBlockEdges, kPageBytes)));
  const std::size_t by_bytes = std::max(kLeastInFlight, kBytesInFlight / shape.bytes);
  shape.base_count = std::min(options.queue_depth, by_bytes) + 2 * decode_threads;
  shape.base_count = std::max(kLeastInFlight, shape.base_count);
  shape.count = shape.base_count;
  return shape;
}

std::size_t direct_sample_bytes(const BufferShape& buffers) { return buffers.bytes - kBlockEdges; }

std::shared_ptr<cuda::Direct> open_direct(const LoaderOptions& options,
                                          std::shared_ptr<cuda::Device> device) {
  cuda::DirectOptions wanted;
  wanted.allow_compatible = options.fallback == Fallback::kWarn;
  wanted.system_root = options.system_root;
  auto direct = cuda::Direct::open(std::move(device), wanted);
  if (direct) return *std::move(direct);
  throw Error(direct.error().code,
              fmt::format("backend \"cufile\" can't be had: {}", direct.error().message));
}

std::string direct_reason(const BufferShape& buffers) {
  return fmt::format("cufile, as was asked for: reads of up to {} into {} buffers on the GPU, {}",
                     human_bytes(buffers.bytes), buffers.count,
                     human_bytes(buffers.count * buffers.bytes));
}

}  // namespace feedrace::pipeline
