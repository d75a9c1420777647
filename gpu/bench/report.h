// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gpu/places.h"

/// What the parts of feedrace_gpu_bench share: their options, and the lines of JSON that they
/// print.
namespace feedrace::gpu {

struct BenchOptions {
  std::string pictures;   ///< Folder of class folders with JPEGs, or of decoded shards.
  double seconds = 5;     ///< Of a loader's run.
  bool is_quick = false;  ///< Small data and few runs: shows that it works, not how fast it is.
  std::size_t batch_size = 256;
  std::size_t count = 0;         ///< Of pictures to make.
  std::string backend = "auto";  ///< Of the loader: "cufile" reads decoded shards into the GPU.
};

/// {"figure": name, "unit": unit, "values": [...]}, at once.
void print_figure(const std::string& name, const std::string& unit,
                  const std::vector<double>& values);
/// {"check": name, "status": "pass", "fail" or "skip", "reason": text}.
void print_check(const std::string& name, bool is_good, const std::string& found);
void print_skip(const std::string& name, const std::string& reason);

/// Device memory, copied within it: the bytes that are read and written a second.
double device_bandwidth_gb_s(const std::shared_ptr<cuda::Device>& device, bool is_quick);

/// Runs `work` on a stream; what the GPU needed for it, by events around it.
template <typename Work>
double device_seconds(const std::shared_ptr<cuda::Device>& device, const cuda::Stream& stream,
                      const Work& work) {
  cuda::Event begin(device, true);
  cuda::Event end(device, true);
  begin.record(stream.handle());
  work();
  end.record(stream.handle());
  end.wait();
  float milliseconds = 0;
  feedrace_cuda_error error{};
  cuda::require(device->table().elapsed_ms(device->handle(), begin.handle(), end.handle(),
                                           &milliseconds, &error),
                error);
  // An event's clock has steps of half a microsecond; less than one is not told from nothing.
  return std::max(1e-3 * static_cast<double>(milliseconds), 5e-7);
}

inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void bench_copies(const BenchOptions& options);
void bench_fused_pass(const BenchOptions& options);
void bench_decode(const BenchOptions& options);
void bench_loader(const BenchOptions& options);
void write_pictures(const BenchOptions& options);
void write_decoded_shards(const BenchOptions& options);

}  // namespace feedrace::gpu
