// SPDX-License-Identifier: Apache-2.0
#pragma once

// FEEDRACE_HOST_DEVICE marks a function that a CUDA compiler builds for the device as well; other
// compilers see nothing. The two before a loop say whether a device's registers are for its turns.
#ifdef __CUDACC__
#define FEEDRACE_HOST_DEVICE __host__ __device__
#define FEEDRACE_UNROLL _Pragma("unroll")
#define FEEDRACE_NO_UNROLL _Pragma("unroll 1")
#else
#define FEEDRACE_HOST_DEVICE
#define FEEDRACE_UNROLL
#define FEEDRACE_NO_UNROLL
#endif
