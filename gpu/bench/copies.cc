// SPDX-License-Identifier: Apache-2.0
// Copies from host memory to the device: what the link gives, and what our way makes of it.
#include <algorithm>
#include <memory>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/cuda/batch_upload.h"

#include "gpu/bench/report.h"

namespace feedrace::gpu {
namespace {

using cuda::DeviceMemory;
using cuda::Stream;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void fill(std::byte* memory, std::size_t bytes, unsigned seed) {
  for (std::size_t i = 0; i < bytes; ++i) {
    memory[i] = static_cast<std::byte>((i * 2654435761U >> 13U) + seed);
  }
}

/// The plain benchmark: one large copy after another, each timed by itself.
std::vector<double> copy_alone(const std::shared_ptr<cuda::Device>& device, const std::byte* source,
                               std::size_t bytes, int runs) {
  const DeviceMemory memory(device, bytes);
  Stream stream(device);
  std::vector<double> gb_s;
  for (int run = 0; run <= runs; ++run) {
    const double seconds = device_seconds(
        device, stream, [&] { stream.copy_to_device(memory.address(), source, bytes); });
    if (run > 0)
      gb_s.push_back(static_cast<double>(bytes) / seconds / 1e9);  // The first one warms.
  }
  return gb_s;
}

bool comes_back(const std::shared_ptr<cuda::Device>& device, const std::byte* source,
                std::size_t bytes) {
  const DeviceMemory memory(device, bytes);
  Stream stream(device);
  std::vector<std::byte> came(bytes);
  stream.copy_to_device(memory.address(), source, bytes);
  stream.copy_to_host(came.data(), memory.address(), bytes);
  finish(device, stream);
  return std::equal(came.begin(), came.end(), source);
}

/// Batches through the ring that the loader uses, in GB/s of the wall clock: `count` batches a run,
/// from as many sources as the ring keeps at once, and one more.
std::vector<double> upload_batches(const std::shared_ptr<cuda::Device>& device,
                                   const HostMemory& source, std::size_t batch_bytes, int runs,
                                   int count, bool* is_whole) {
  const auto upload = cuda::BatchUpload::create(device, 4, 8);
  Stream consumer(device);
  const std::size_t sources = source.size_bytes() / batch_bytes;
  std::vector<double> gb_s;
  for (int run = 0; run <= runs; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < count; ++i) {
      const std::byte* from = source.data() + static_cast<std::size_t>(i) % sources * batch_bytes;
      const cuda::Piece piece[] = {{from, batch_bytes, 0}};
      const auto slot = upload->acquire(batch_bytes, {});
      upload->fill(*slot, piece, nullptr);
      slot->hand_over(consumer.handle());
      if (run > 0 || i + 1 < count) continue;
      std::vector<std::byte> came(batch_bytes);
      slot->read(0, came);
      *is_whole = std::equal(came.begin(), came.end(), from);
    }
    finish(device, consumer);
    if (run == 0) continue;
    gb_s.push_back(static_cast<double>(batch_bytes) * count / seconds_since(begin) / 1e9);
  }
  return gb_s;
}

}  // namespace

double device_bandwidth_gb_s(const std::shared_ptr<cuda::Device>& device, bool is_quick) {
  const std::size_t bytes = std::size_t{is_quick ? 16U : 1024U} << 20U;
  const DeviceMemory from(device, bytes);
  const DeviceMemory to(device, bytes);
  const Stream stream(device);
  std::vector<double> gb_s;
  for (int run = 0; run <= (is_quick ? 3 : 20); ++run) {
    const double seconds = device_seconds(device, stream, [&] {
      feedrace_cuda_error error{};
      cuda::require(device->table().copy_on_device(device->handle(), to.address(), from.address(),
                                                   bytes, stream.handle(), &error),
                    error);
    });
    if (run > 0) gb_s.push_back(2 * static_cast<double>(bytes) / seconds / 1e9);
  }
  print_figure("memory.copy_on_device", "GB/s read and written", gb_s);
  return median(gb_s);
}

void bench_copies(const BenchOptions& options) {
  const auto device = open_device();
  const std::size_t large_bytes = std::size_t{options.is_quick ? 16U : 512U} << 20U;
  const int runs = options.is_quick ? 3 : 20;
  // As the loader's slots: 256 pictures of 224 x 224 pixels in halves are 77 MB.
  const std::size_t picture_bytes = std::size_t{224} * 224 * 3 * 2;
  const std::size_t batch_bytes = (options.is_quick ? 8 : options.batch_size) * picture_bytes;
  constexpr std::size_t kSources = cuda::BatchUpload::kCopiesInFlight + 1;

  const HostMemory memory(std::max(large_bytes, kSources * batch_bytes));
  fill(memory.data(), memory.size_bytes(), 1);
  const bool pageable_good = comes_back(device, memory.data(), large_bytes);
  const std::vector<double> pageable = copy_alone(device, memory.data(), large_bytes, runs);
  const cuda::PinnedRange pinned(device, memory.data(), memory.size_bytes());
  const bool pinned_good = comes_back(device, memory.data(), large_bytes);
  const std::vector<double> link = copy_alone(device, memory.data(), large_bytes, runs);
  bool upload_good = false;
  const std::vector<double> ours =
      upload_batches(device, memory, batch_bytes, runs, options.is_quick ? 4 : 20, &upload_good);
  print_check("copies.output", pageable_good && pinned_good && upload_good,
              fmt::format("bytes came back as they were: pageable {}, pinned {}, batches {}",
                          pageable_good, pinned_good, upload_good));
  print_figure("copies.link", "GB/s", link);
  print_figure("copies.pageable", "GB/s", pageable);
  print_figure("copies.batches_pinned", "GB/s", ours);
  std::vector<double> share;
  for (const double gb_s : ours) share.push_back(100 * gb_s / median(link));
  print_figure("copies.batches_share_of_link", "%", share);
}

}  // namespace feedrace::gpu
