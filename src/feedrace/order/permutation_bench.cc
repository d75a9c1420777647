// SPDX-License-Identifier: Apache-2.0
// Question: how many positions of an epoch can one core look up in a second?
// Run: build/release/bin/feedrace_order_bench

#include <cstdint>

#include <benchmark/benchmark.h>

#include "feedrace/order/permutation.h"

namespace feedrace::order {
namespace {

void PermutationLookup(benchmark::State& state) {
  const auto n = static_cast<std::uint64_t>(state.range(0));
  const Permutation permutation(n, 1, 1);
  std::uint64_t position = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(permutation(position));
    if (++position == n) position = 0;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(PermutationLookup)->Arg(1'281'167)->Arg(1'000'000'000)->Arg(10'000'000'000'000);

}  // namespace
}  // namespace feedrace::order
