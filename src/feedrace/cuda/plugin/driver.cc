// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/driver.h"

#include <unistd.h>

#include <atomic>

#include <fmt/format.h>

namespace feedrace::cuda_plugin {
namespace {

// Twice, so that cuda.h's names are those of the symbols.
#define FEEDRACE_TEXT_OF(name) #name
#define FEEDRACE_SYMBOL_OF(name) FEEDRACE_TEXT_OF(name)

template <typename Call>
void find(const Library& library, const char* name, Call& call, std::string& lacking) {
  call = reinterpret_cast<Call>(library.symbol(name));
  if (call == nullptr) lacking += (lacking.empty() ? "" : ", ") + std::string(name);
}

/// The process that started the driver, whose state is the process's own: behind a fork it is of no
/// use, and calls of it may never return.
std::atomic<pid_t> started_in = 0;

/// The process that this one is a fork of and that started the driver; 0 when there is none.
pid_t started_before_fork() {
  pid_t before = 0;
  const pid_t here = getpid();
  return started_in.compare_exchange_strong(before, here) || before == here ? 0 : before;
}

}  // namespace

Driver::Driver(const std::vector<std::string>& folders) : library("libcuda.so.1", folders) {
  if (!library) {
    missing = "libcuda.so.1 (the driver of NVIDIA) is not there: " + library.failure();
    remedy = "install the driver, or give the container the GPU (--gpus all)";
    return;
  }
  std::string lacking;
#define FEEDRACE_FIND(name) find(library, FEEDRACE_SYMBOL_OF(name), name, lacking);
  FEEDRACE_DRIVER_CALLS(FEEDRACE_FIND)
#undef FEEDRACE_FIND
  if (!lacking.empty()) {
    missing = fmt::format("{} lacks {}", library.path(), lacking);
    remedy = fmt::format("install a driver for CUDA {}.{} or newer", CUDA_VERSION / 1000,
                         CUDA_VERSION % 1000 / 10);
    return;
  }
  if (const pid_t parent = started_before_fork(); parent != 0) {
    missing = fmt::format(
        "this process is a fork of {}, which has used the GPU, and CUDA does not "
        "work behind a fork",
        parent);
    remedy = "start processes by spawn, or before anything uses a GPU";
    return;
  }
  if (const CUresult result = cuInit(0); result != CUDA_SUCCESS) {
    const char* text = nullptr;
    const bool has_text = cuGetErrorString(result, &text) == CUDA_SUCCESS && text != nullptr;
    missing = fmt::format("cuInit of {} gave {} ({})", library.path(), static_cast<int>(result),
                          has_text ? text : "an unknown error");
    remedy = "check nvidia-smi and that /dev/nvidia* may be opened";
    return;
  }
  cuDriverGetVersion(&version);
}

}  // namespace feedrace::cuda_plugin
