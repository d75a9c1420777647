// SPDX-License-Identifier: Apache-2.0
// Question: what does the pass from a decoded crop to a row of the batch cost, for crops of
// ordinary and extreme sizes, with each set of instructions? Run: cmake --preset release && ninja
// -C build/release feedrace_ops_bench &&
//      build/release/bin/feedrace_ops_bench --benchmark_repetitions=5
//      --benchmark_report_aggregates_only
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "feedrace/op.h"
#include "feedrace/ops/convert.h"
#include "feedrace/ops/fused_pass.h"
#include "feedrace/ops/random_pictures.h"
#include "feedrace/ops/reference.h"

namespace feedrace::ops {
namespace {

/// Rows come in bands, as a decoder gives them.
void run_pass(FusedPass& pass, const reference::Image& crop, const FusedPlan& plan, void* tensor) {
  const std::size_t row_bytes = std::size_t{crop.width_px} * 3;
  pass.begin(plan, tensor);
  const CropBox& part = pass.source();
  const std::uint8_t* next = &crop.rgb[part.y_px * row_bytes + part.x_px * std::size_t{3}];
  while (const std::uint32_t rows = pass.rows_wanted()) {
    pass.push_rows(next, row_bytes, rows);
    next += rows * row_bytes;
  }
}

void bench_fused(benchmark::State& state, const Kernels* kernels, ImageSize size,
                 TensorFormat format) {
  const reference::Image crop = noise(size.width_px, size.height_px, 1);
  const FusedPlan plan = {resize_to(size, {224, 224}), true};
  FusedPass pass(format, *kernels);
  std::vector<std::byte> tensor(pass.tensor_bytes({224, 224}));
  for (auto _ : state) run_pass(pass, crop, plan, tensor.data());
  if (tensor != reference::run(crop.view(), plan, format)) state.SkipWithError("wrong pixels");
  state.counters["source_px_per_second"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * size.width_px * size.height_px,
                         benchmark::Counter::kIsRate);
}

/// What `begin` alone costs: the weights differ for every crop.
void bench_begin(benchmark::State& state, const Kernels* kernels, ImageSize size) {
  FusedPass pass(imagenet(DType::kFloat16, Layout::kChw), *kernels);
  std::vector<std::byte> tensor(pass.tensor_bytes({224, 224}));
  for (auto _ : state) {
    pass.begin({resize_to(size, {224, 224}), true}, tensor.data());
    benchmark::DoNotOptimize(pass.rows_wanted());
  }
}

void bench_convert(benchmark::State& state, const Kernels* kernels, TensorFormat format) {
  const reference::Image image = noise(224, 224, 1);
  const Converter converter(format, *kernels);
  std::vector<std::byte> tensor(converter.tensor_bytes({224, 224}));
  for (auto _ : state) converter.convert(image.view(), tensor.data());
  if (tensor != reference::to_tensor(image.view(), format)) state.SkipWithError("wrong pixels");
}

bool register_all() {
  const std::vector<TensorFormat> formats = {imagenet(DType::kFloat16, Layout::kChw),
                                             imagenet(DType::kFloat32, Layout::kChw),
                                             imagenet(DType::kUint8, Layout::kHwc)};
  for (const Kernels* kernels : available_kernels()) {
    for (const ImageSize size : {ImageSize{100, 100}, {320, 260}, {500, 375}, {1000, 800}}) {
      const std::string tail = "/" + std::string(kernels->name) + "/" +
                               std::to_string(size.width_px) + "x" + std::to_string(size.height_px);
      for (const TensorFormat& format : formats) {
        const std::string name =
            std::string("fused/") + to_string(format.dtype) + "_" + to_string(format.layout) + tail;
        benchmark::RegisterBenchmark(name.c_str(), bench_fused, kernels, size, format);
      }
      benchmark::RegisterBenchmark(("begin" + tail).c_str(), bench_begin, kernels, size);
    }
    for (const TensorFormat& format : formats) {
      const std::string name = std::string("convert/") + to_string(format.dtype) + "_" +
                               to_string(format.layout) + "/" + kernels->name;
      benchmark::RegisterBenchmark(name.c_str(), bench_convert, kernels, format);
    }
  }
  return true;
}

[[maybe_unused]] const bool kRegistered = register_all();

}  // namespace
}  // namespace feedrace::ops
