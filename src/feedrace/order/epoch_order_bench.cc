// SPDX-License-Identifier: Apache-2.0
// Question: what does a place in a batch cost, from rank and step to the number of its sample, by
// way of shuffling, and how long does an epoch's order take to make?
// Run: build/release/bin/feedrace_order_bench

#include <cstdint>
#include <memory>

#include <benchmark/benchmark.h>

#include "feedrace/order/test_orders.h"

namespace feedrace::order {
namespace {

std::shared_ptr<const SampleOrder> order_of(const benchmark::State& state) {
  OrderOptions options;
  options.sets = {whole_set(static_cast<std::uint64_t>(state.range(1)))};
  options.shuffle.shuffle = static_cast<Shuffle>(state.range(0));
  return std::make_shared<const SampleOrder>(std::move(options));
}

constexpr SplitOptions kSplit{256, 3, 8, LastBatch::kDrop};

void EpochOrderPick(benchmark::State& state) {
  const EpochOrder epoch(order_of(state), kSplit, 7);
  std::uint64_t batch = 0;
  std::uint64_t index = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(epoch.pick(batch, index));
    if (++index < kSplit.batch_size) continue;
    index = 0;
    if (++batch == epoch.split().steps) batch = 0;
  }
  state.SetItemsProcessed(state.iterations());
  state.SetLabel(to_string(static_cast<Shuffle>(state.range(0))));
}

void EpochOrderMake(benchmark::State& state) {
  const auto order = order_of(state);
  std::uint64_t epoch = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(EpochOrder(order, kSplit, ++epoch, order->epoch_samples() / 2));
  }
}

BENCHMARK(EpochOrderPick)->ArgsProduct({{0, 1, 2}, {1'281'167, 10'000'000'000'000}});
BENCHMARK(EpochOrderMake)->ArgsProduct({{0, 1, 2}, {1'281'167, 10'000'000'000'000}});

}  // namespace
}  // namespace feedrace::order
