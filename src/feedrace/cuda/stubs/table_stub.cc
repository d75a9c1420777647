// SPDX-License-Identifier: Apache-2.0
// A plug-in of another release of Feedrace, in all that the library may look at: the version and
// the size of its table, from FEEDRACE_STUB_TABLE="VERSION BYTES".
#include <cstdlib>
#include <sstream>

#include "feedrace/cuda/plugin_abi.h"

extern "C" const feedrace_cuda_plugin* feedrace_cuda_plugin_get() {
  static feedrace_cuda_plugin table{};
  const char* told = std::getenv("FEEDRACE_STUB_TABLE");
  std::istringstream(told == nullptr ? "0 0" : told) >> table.abi_version >> table.struct_bytes;
  return &table;
}
