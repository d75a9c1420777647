// SPDX-License-Identifier: Apache-2.0
// Ranges for NVIDIA's profilers. NVTX is headers alone: a profiler that starts the program names a
// library in the environment, which NVTX opens at the first call; without one a call is a look at a
// null pointer.
#include <nvtx3/nvToolsExt.h>

#include "feedrace/cuda/plugin/handles.h"

namespace feedrace::cuda_plugin {
namespace {

nvtxDomainHandle_t domain() {
  static const nvtxDomainHandle_t kDomain = nvtxDomainCreateA("feedrace");
  return kDomain;
}

void begin_range(const char* name) {
  nvtxEventAttributes_t event{};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = name;
  nvtxDomainRangePushEx(domain(), &event);
}

void end_range() { nvtxDomainRangePop(domain()); }

}  // namespace

void add_ranges(feedrace_cuda_plugin& table) {
  table.begin_range = begin_range;
  table.end_range = end_range;
}

}  // namespace feedrace::cuda_plugin
