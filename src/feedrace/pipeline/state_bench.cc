// SPDX-License-Identifier: Apache-2.0
// Question: what does it cost to save a state and to go on from one, near and far, in sets of any
// size? Each round checks that the loader stands where the state says.
// Run: build/release/bin/feedrace_pipeline_bench

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>

#include "feedrace/core/cores.h"
#include "feedrace/loader.h"
#include "feedrace/pipeline/test_synthetic_set.h"

namespace feedrace::pipeline {
namespace {

constexpr std::int64_t kThousands = 100'000;
constexpr std::int64_t kHuge = 10'000'000'000'000;

std::unique_ptr<Loader> make_loader(std::uint64_t samples) {
  LoaderOptions options;
  options.dataset = std::make_shared<SyntheticSet>(samples);
  options.rank = 3;
  options.world_size = 8;
  return std::make_unique<Loader>(options);
}

void StateSave(benchmark::State& state) {
  const auto loader = make_loader(static_cast<std::uint64_t>(state.range(0)));
  loader->load_state(
      SyntheticSet::state_at(loader->state(), 5, static_cast<std::uint64_t>(state.range(1))));
  std::string text;
  for (auto _ : state) {
    text = loader->state();
    benchmark::DoNotOptimize(text);
  }
  state.counters["bytes"] = static_cast<double>(text.size());
}

void StateLoad(benchmark::State& state) {
  const auto loader = make_loader(static_cast<std::uint64_t>(state.range(0)));
  loader->load_state(
      SyntheticSet::state_at(loader->state(), 5, static_cast<std::uint64_t>(state.range(1))));
  const std::string text = loader->state();
  for (auto _ : state) loader->load_state(text);
  if (loader->state() != text) state.SkipWithError("the loader does not stand where it should");
}

std::size_t bytes_of_loaders(std::uint64_t samples) {
  constexpr std::size_t kLoaders = 64;
  const std::size_t before = anonymous_memory_bytes();
  std::vector<std::unique_ptr<Loader>> loaders;
  for (std::size_t i = 0; i < kLoaders; ++i) {
    loaders.push_back(make_loader(samples));
    loaders.back()->load_state(SyntheticSet::state_at(loaders.back()->state(), 5, samples / 10));
  }
  const std::size_t after = anonymous_memory_bytes();
  return (after > before ? after - before : 0) / kLoaders;
}

/// Anonymous memory of a loader that stands somewhere in its epoch, behind that of one that came
/// before: what the allocator keeps is not the point.
void StateMemory(benchmark::State& state) {
  for (auto _ : state) {
    bytes_of_loaders(kThousands);
    const std::size_t bytes = bytes_of_loaders(static_cast<std::uint64_t>(state.range(0)));
    state.counters["bytes_a_loader"] = static_cast<double>(bytes);
  }
}

BENCHMARK(StateSave)->Args({kThousands, 0})->Args({kHuge, 0})->Args({kHuge, kHuge / 10});
BENCHMARK(StateLoad)->Args({kThousands, 0})->Args({kHuge, 0})->Args({kHuge, kHuge / 10});
BENCHMARK(StateMemory)->Arg(kThousands)->Arg(kHuge)->Iterations(1);

}  // namespace
}  // namespace feedrace::pipeline
