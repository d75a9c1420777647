// SPDX-License-Identifier: Apache-2.0
// The host build of the fused pass, for the stub of libcuda: the same loops as on a device. A block
// is one thread, or FEEDRACE_STUB_BLOCK_THREADS of them (2 to 16, even), two a warp, with real
// barriers: then the thread sanitizer sees a barrier that is missing.
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <thread>
#include <vector>

#include "feedrace/cuda/fused_pass_block.h"
#include "feedrace/cuda/fused_pass_weights.h"
#include "feedrace/cuda/stubs/stub_control.h"

namespace feedrace::cuda {
namespace {

constexpr std::uint32_t kLanes = 2;

/// Its barriers have no one to wait for.
struct LoneBlock {
  std::uint32_t thread() const { return 0; }
  std::uint32_t threads() const { return 1; }
  std::uint32_t warp() const { return 0; }
  std::uint32_t warps() const { return 1; }
  std::uint32_t lane() const { return 0; }
  std::uint32_t lanes() const { return 1; }
  void barrier() const {}
  void warp_barrier() const {}
};

struct Barriers {
  explicit Barriers(std::uint32_t threads) : block(threads) {
    for (std::uint32_t i = 0; i < threads / kLanes; ++i) warps.emplace_back(kLanes);
  }
  std::barrier<> block;
  std::deque<std::barrier<>> warps;
};

struct SharedBlock {
  Barriers* barriers;
  std::uint32_t index;
  std::uint32_t count;

  std::uint32_t thread() const { return index; }
  std::uint32_t threads() const { return count; }
  std::uint32_t warp() const { return index / kLanes; }
  std::uint32_t warps() const { return count / kLanes; }
  std::uint32_t lane() const { return index % kLanes; }
  std::uint32_t lanes() const { return kLanes; }
  void barrier() const { barriers->block.arrive_and_wait(); }
  void warp_barrier() const { barriers->warps[warp()].arrive_and_wait(); }
};

std::uint32_t threads_asked_for() {
  const char* text = std::getenv("FEEDRACE_STUB_BLOCK_THREADS");
  const int count = text == nullptr ? 1 : std::atoi(text);
  return count < 2 || count > 16 ? 1 : static_cast<std::uint32_t>(count / 2 * 2);
}

/// Calls body(block, index) for each block of the grid, with all threads of the block.
template <typename Body>
void for_each_block(std::uint32_t blocks, const Body& body) {
  const std::uint32_t count = threads_asked_for();
  if (count == 1) {
    for (std::uint32_t i = 0; i < blocks; ++i) body(LoneBlock{}, i);
    return;
  }
  Barriers barriers(count);
  std::vector<std::jthread> threads;
  for (std::uint32_t t = 0; t < count; ++t) {
    threads.emplace_back([&, block = SharedBlock{&barriers, t, count}] {
      for (std::uint32_t i = 0; i < blocks; ++i) {
        body(block, i);
        block.barrier();  // The next one has the same memory.
      }
    });
  }
}

void weigh(const unsigned grid[3], const unsigned*, void** arguments) {
  const auto& batch = *static_cast<const FusedBatch*>(arguments[0]);
  for_each_block(grid[0] * grid[1], [&](const auto& block, std::uint32_t i) {
    fused_weights_block(block, batch, i % grid[0], i / grid[0]);
  });
}

template <typename Value>
void pass(const unsigned grid[3], const unsigned*, void** arguments) {
  const auto& batch = *static_cast<const FusedBatch*>(arguments[0]);
  const auto shared = std::make_unique<FusedShared>();
  std::memset(shared.get(), 0xA5, sizeof(*shared));  // Rubbish, as a device's has at first.
  for_each_block(grid[0], [&](const auto& block, std::uint32_t i) {
    fused_pass_block<Value>(block, batch, i, *shared);
  });
}

void add_all() {
  feedrace_stub_add_kernel(kFusedWeightsKernel, weigh, sizeof(FusedBatch));
  feedrace_stub_add_kernel(kFusedPassKernels[0], pass<std::uint8_t>, sizeof(FusedBatch));
  feedrace_stub_add_kernel(kFusedPassKernels[1], pass<std::uint16_t>, sizeof(FusedBatch));
  feedrace_stub_add_kernel(kFusedPassKernels[2], pass<float>, sizeof(FusedBatch));
}

}  // namespace
}  // namespace feedrace::cuda

void add_host_kernels();

void add_host_kernels() { feedrace::cuda::add_all(); }
