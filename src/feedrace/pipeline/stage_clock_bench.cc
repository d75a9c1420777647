// SPDX-License-Identifier: Apache-2.0
// What statistics cost a sample: the clock reads and sums of a decode thread's loop, and the sum of
// a read. bench/overhead.py sets them against the time that a sample takes.

#include <benchmark/benchmark.h>

#include "feedrace/pipeline/stage_clock.h"

namespace feedrace::pipeline {
namespace {

void count_a_sample(benchmark::State& state) {
  StageClock io;
  StageClock decode;
  LatencyHistogram latency;
  auto asked = Clock::now();
  for (auto _ : state) {
    const auto start = Clock::now();
    decode.add_wait(nanoseconds_between(asked, start));
    const std::uint64_t cpu_before = thread_cpu_ns();
    decode.add_cpu(thread_cpu_ns() - cpu_before);
    const auto end = Clock::now();
    decode.add_busy(nanoseconds_between(start, end));
    decode.add_items(1);
    // A read of its own, as of a folder: submitted, waited for, handed on.
    for (int i = 0; i < 3; ++i) {
      const auto begun = Clock::now();
      io.add_busy(nanoseconds_since(begun));
    }
    latency.record(nanoseconds_between(start, end));
    io.add_items(1);
    asked = Clock::now();
  }
  benchmark::DoNotOptimize(latency.count());
}
BENCHMARK(count_a_sample)->Name("Statistics/Sample");

}  // namespace
}  // namespace feedrace::pipeline
