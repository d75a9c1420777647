// SPDX-License-Identifier: Apache-2.0
// Question: what does each colour adjustment cost a pixel of a 224 x 224 picture, with each set of
// instructions, and a whole ColorJitter? Run: cmake --preset release && ninja -C build/release
// feedrace_ops_bench && build/release/bin/feedrace_ops_bench --benchmark_filter=color/
#include <string>

#include <benchmark/benchmark.h>

#include "feedrace/ops/color_adjust.h"
#include "feedrace/ops/color_jitter.h"
#include "feedrace/ops/random_pictures.h"

namespace feedrace::ops {
namespace {

constexpr std::uint32_t kSidePx = 224;

void count_pixels(benchmark::State& state) {
  state.counters["s_per_px"] =
      benchmark::Counter(static_cast<double>(state.iterations()) * kSidePx * kSidePx,
                         benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

using Adjust = void (*)(const ImageView& pixels, double factor, const ColorKernels& kernels);

void bench_adjust(benchmark::State& state, Adjust adjust, const ColorKernels* kernels) {
  reference::Image image = noise(kSidePx, kSidePx, 1);
  for (auto _ : state) adjust(image.view(), 0.3, *kernels);
  count_pixels(state);
}

void bench_jitter(benchmark::State& state) {
  const ColorRanges ranges = {{{0.6, 1.4}}, {{0.6, 1.4}}, {{0.6, 1.4}}, {{-0.1, 0.1}}};
  reference::Image image = noise(kSidePx, kSidePx, 1);
  std::uint64_t sample = 0;
  for (auto _ : state) {
    SampleRandom random(1, 0, ++sample, 3);
    color_jitter(image.view(), draw_color_jitter(ranges, random));
  }
  count_pixels(state);
}

bool register_all() {
  for (const ColorKernels* kernels : available_color_kernels()) {
    const auto add = [kernels](const char* name, Adjust adjust) {
      const std::string full_name = std::string("color/") + name + "/" + kernels->name;
      benchmark::RegisterBenchmark(full_name.c_str(), bench_adjust, adjust, kernels);
    };
    add("brightness", adjust_brightness);
    add("contrast", adjust_contrast);
    add("saturation", adjust_saturation);
    add("hue", adjust_hue);
  }
  benchmark::RegisterBenchmark("color/jitter", bench_jitter);
  return true;
}

[[maybe_unused]] const bool kRegistered = register_all();

}  // namespace
}  // namespace feedrace::ops
