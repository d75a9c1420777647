// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <string>

#include "feedrace/cuda/plugin/library.h"

namespace feedrace::cuda_plugin {

// Every call of the driver that we make. cuda.h turns a name into that of its newest version, which
// is also the name of the symbol.
#define FEEDRACE_DRIVER_CALLS(CALL) \
  CALL(cuInit)                      \
  CALL(cuDriverGetVersion)          \
  CALL(cuGetErrorName)              \
  CALL(cuGetErrorString)            \
  CALL(cuDeviceGetCount)            \
  CALL(cuDeviceGet)                 \
  CALL(cuDeviceGetName)             \
  CALL(cuDeviceGetUuid)             \
  CALL(cuDeviceGetPCIBusId)         \
  CALL(cuDeviceGetAttribute)        \
  CALL(cuDeviceTotalMem)            \
  CALL(cuDevicePrimaryCtxRetain)    \
  CALL(cuDevicePrimaryCtxRelease)   \
  CALL(cuCtxPushCurrent)            \
  CALL(cuCtxPopCurrent)             \
  CALL(cuMemGetInfo)                \
  CALL(cuMemAlloc)                  \
  CALL(cuMemFree)                   \
  CALL(cuMemHostRegister)           \
  CALL(cuMemHostUnregister)         \
  CALL(cuMemcpyHtoDAsync)           \
  CALL(cuMemcpyDtoHAsync)           \
  CALL(cuMemcpyDtoDAsync)           \
  CALL(cuStreamCreateWithPriority)  \
  CALL(cuStreamDestroy)             \
  CALL(cuStreamSynchronize)         \
  CALL(cuStreamWaitEvent)           \
  CALL(cuEventCreate)               \
  CALL(cuEventDestroy)              \
  CALL(cuEventRecord)               \
  CALL(cuEventQuery)                \
  CALL(cuEventSynchronize)          \
  CALL(cuEventElapsedTime)          \
  CALL(cuModuleLoadData)            \
  CALL(cuModuleUnload)              \
  CALL(cuModuleGetFunction)         \
  CALL(cuFuncSetAttribute)          \
  CALL(cuLaunchKernel)

/// The driver, opened by name.
struct Driver {
  explicit Driver(const std::vector<std::string>& folders);

  Library library;
  /// Empty when it can be used; else why not.
  std::string missing;
  std::string remedy;  ///< What to do when it is missing.
  /// Both, in one line.
  std::string refusal() const { return missing + "; " + remedy; }
  int version = 0;  ///< 13000 is 13.0.

#define FEEDRACE_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;
  FEEDRACE_DRIVER_CALLS(FEEDRACE_DRIVER_MEMBER)
#undef FEEDRACE_DRIVER_MEMBER
};

}  // namespace feedrace::cuda_plugin
