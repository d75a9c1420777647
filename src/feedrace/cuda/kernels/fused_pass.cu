// SPDX-License-Identifier: Apache-2.0
// The kernels of the fused pass; see fused_pass_block.h. Built with -fmad=false.
#include "feedrace/cuda/fused_pass_block.h"
#include "feedrace/cuda/fused_pass_weights.h"

namespace feedrace::cuda {
namespace {

struct DeviceBlock {
  __device__ std::uint32_t thread() const { return threadIdx.x; }
  __device__ std::uint32_t threads() const { return blockDim.x; }
  __device__ std::uint32_t warp() const { return threadIdx.x / 32; }
  __device__ std::uint32_t warps() const { return blockDim.x / 32; }
  __device__ std::uint32_t lane() const { return threadIdx.x % 32; }
  __device__ std::uint32_t lanes() const { return 32; }
  __device__ void barrier() const { __syncthreads(); }
  __device__ void warp_barrier() const { __syncwarp(); }
};

template <typename Value>
__device__ void run_block(const FusedBatch& batch) {
  extern __shared__ FusedShared shared[];
  fused_pass_block<Value>(DeviceBlock{}, batch, blockIdx.x, shared[0]);
}

}  // namespace

extern "C" __global__ void __launch_bounds__(kFusedThreads)
    feedrace_fused_weights(const __grid_constant__ FusedBatch batch) {
  fused_weights_block(DeviceBlock{}, batch, blockIdx.x, blockIdx.y);
}

// 3 blocks a multiprocessor: as many as its shared memory has room for.
extern "C" __global__ void __launch_bounds__(kFusedThreads, 3)
    feedrace_fused_pass_uint8(const __grid_constant__ FusedBatch batch) {
  run_block<std::uint8_t>(batch);
}

extern "C" __global__ void __launch_bounds__(kFusedThreads, 3)
    feedrace_fused_pass_float16(const __grid_constant__ FusedBatch batch) {
  run_block<std::uint16_t>(batch);
}

extern "C" __global__ void __launch_bounds__(kFusedThreads, 3)
    feedrace_fused_pass_float32(const __grid_constant__ FusedBatch batch) {
  run_block<float>(batch);
}

}  // namespace feedrace::cuda
